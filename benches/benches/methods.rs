//! Plan, one-shot and bound, apart: what a plan costs, what a single call costs, and what each further image costs.

use criterion::{Criterion, criterion_group, criterion_main};
use flcc_benches::{CASES, Case};
use flcc_runtime::{Control, Planner, ScoreMap};
use std::hint::black_box;
use std::time::Duration;

fn methods(criterion: &mut Criterion) {
    for text in CASES {
        let case = Case::new(text);
        let planner = Planner::new().expect("FLCC_ISA is unset or right");
        let matcher = case.bind(&planner.plan(&case.spec).expect("auto serves every case"));
        let mut map = ScoreMap::zeros(case.spec.region(), case.spec.out_type());
        let mut scratch = matcher.make_scratch();
        let images = [case.image()];
        matcher.execute_into(&images, &mut [map.view_mut()], &mut scratch, &Control::default()).expect("made for the spec");
        let error = case.check(&map, 64);
        println!("{text}: {} largest error {error:.1e}", matcher.kernel());
        criterion.bench_function(&format!("plan/{text}"), |bencher| bencher.iter(|| black_box(planner.plan(&case.spec))));
        criterion.bench_function(&format!("one-shot/{text}"), |bencher| {
            bencher.iter(|| black_box(case.bind(&planner.plan(&case.spec).expect("as above")).execute(&images)));
        });
        criterion.bench_function(&format!("bound/{text}"), |bencher| {
            bencher.iter(|| matcher.execute_into(&images, &mut [map.view_mut()], &mut scratch, &Control::default()));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = methods
}
criterion_main!(benches);
