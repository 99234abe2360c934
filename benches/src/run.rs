//! A case bound and run once, whose answer was checked: what may be timed.

use flcc_runtime::{Control, Matcher, Planner, ScoreMap, Scratch, Statistics};

use crate::Case;

/// How many places of a result are checked.
const PLACES: usize = 256;

/// A matcher with its image, its result and its scratch.
pub struct Run<'a> {
    case: &'a Case,
    matcher: Matcher,
    map: ScoreMap,
    scratch: Scratch,
    error: f64,
    statistics: Statistics,
}

impl<'a> Run<'a> {
    /// Plans, binds, runs once and checks the answer.
    ///
    /// # Panics
    /// No plan for the case, or a wrong answer.
    pub fn new(case: &'a Case, planner: &Planner) -> Run<'a> {
        let plan = planner.plan(&case.spec).unwrap_or_else(|error| panic!("{}: {error}", case.spec));
        let matcher = case.bind(&plan);
        let (map, scratch) = (ScoreMap::of(&case.spec), matcher.make_scratch());
        let mut run = Run { case, matcher, map, scratch, error: 0.0, statistics: Statistics::default() };
        run.execute();
        run.error = case.check(&run.map, PLACES);
        run
    }

    /// Computes the result again.
    ///
    /// # Panics
    /// Never: everything was made for the spec, and nothing cancels.
    pub fn execute(&mut self) {
        let Run { case, matcher, map, scratch, statistics, .. } = self;
        *statistics = matcher
            .execute_into(&[case.image()], &mut [map.view_mut()], scratch, &Control::default())
            .expect("made for the spec")
    }

    /// What runs.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The result.
    pub fn map(&self) -> &ScoreMap {
        &self.map
    }

    /// The largest error that the check found.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Counts of the last run.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}
