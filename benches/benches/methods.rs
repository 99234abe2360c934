//! Plan, one-shot and bound, apart: what a plan costs, what a single call costs, and what each further image costs.

use criterion::{Criterion, criterion_group, criterion_main};
use flcc_benches::{CASES, Case, Run};
use flcc_runtime::Planner;
use std::hint::black_box;
use std::time::Duration;

fn methods(criterion: &mut Criterion) {
    for text in CASES {
        let case = Case::new(text);
        let planner = Planner::new().expect("FLCC_ISA is unset or right");
        let mut run = Run::new(&case, &planner);
        println!("{text}: {} largest error {:.1e}", run.matcher().kernel(), run.error());
        criterion
            .bench_function(&format!("plan/{text}"), |bencher| bencher.iter(|| black_box(planner.plan(&case.spec))));
        criterion.bench_function(&format!("one-shot/{text}"), |bencher| {
            let one_shot =
                || case.bind(&planner.plan(&case.spec).expect("auto serves every case")).execute(&[case.image()]);
            bencher.iter(|| black_box(one_shot()));
        });
        criterion.bench_function(&format!("bound/{text}"), |bencher| bencher.iter(|| run.execute()));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = methods
}
criterion_main!(benches);
