//! Which sizes stand for all.

/// `count` of the sizes, ascending, the first and the last among them, spaced evenly by their logarithms as far as the
/// sizes allow; all of them where there are no more.
pub fn sample(sizes: &[usize], count: usize) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else {
        return Vec::new();
    };
    if sizes.len() <= count {
        return sizes.to_vec();
    }
    let mut chosen: Vec<usize> = Vec::new();
    for step in 0..count {
        let share = step as f64 / (count - 1).max(1) as f64;
        let wanted = (first as f64).ln() * (1.0 - share) + (last as f64).ln() * share;
        let left = count - step;
        // The nearest that leaves a size for each that is to come.
        let free = sizes
            .iter()
            .enumerate()
            .filter(|(at, size)| chosen.last().is_none_or(|largest| *size > largest) && sizes.len() - at >= left);
        let distance = |size: usize| ((size as f64).ln() - wanted).abs();
        if let Some((_, &size)) = free.min_by(|(_, a), (_, b)| distance(**a).total_cmp(&distance(**b))) {
            chosen.push(size);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_even_by_logarithms() {
        let all: Vec<usize> = (2..=32).collect();
        assert_eq!(sample(&all, 5), [2, 4, 8, 16, 32]);
        assert_eq!(sample(&all, 11), [2, 3, 4, 5, 6, 8, 11, 14, 18, 24, 32]);
        assert_eq!(sample(&all, 31), all);
        assert_eq!(sample(&all, usize::MAX), all);
        let powers: Vec<usize> = (0..=10).map(|power| 1 << power).collect();
        assert_eq!(sample(&powers, 6), [1, 4, 16, 64, 256, 1024]);
        assert_eq!(sample(&[7], 3), [7]);
        assert!(sample(&[], 3).is_empty());
    }

    #[test]
    fn samples_have_the_ends_and_as_many_as_asked_for() {
        for last in 1..60 {
            let all: Vec<usize> = (1..=last).collect();
            for count in 2..=last {
                let some = sample(&all, count);
                assert_eq!((some.len(), some[0], some[count - 1]), (count, 1, last), "{last} {count}");
                assert!(some.windows(2).all(|pair| pair[0] < pair[1]), "{some:?}");
            }
        }
    }
}
