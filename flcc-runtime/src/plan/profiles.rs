//! Rendered by `cargo xtask gen` from the profiles in profiles/: what work costs on machines that were measured.

/// Processors by name, the best instruction set measured with, and costs as
/// [`Costs::read`](crate::plan::cost::Costs::read) takes them.
#[rustfmt::skip]
pub const PROFILES: &[[&str; 3]] = &[
    ["NVIDIA H200", "sm_90", "\
        device_again = 2.515\n\
        device_bind = 45000.0\n\
        device_bind_library = 700000.0\n\
        device_bind_spectrum = 10.0\n\
        device_bind_taps = 260000.0\n\
        device_bind_transform = 5.0\n\
        device_copy = 0.0831\n\
        device_difference = 0.04954\n\
        device_factor = 0.0085\n\
        device_factor_f64 = 0.0136\n\
        device_factor_sample = 0.5\n\
        device_figures = 0.008681\n\
        device_fused = 0.007387\n\
        device_fused_tensor = 0.0044\n\
        device_gather = 0.0009735\n\
        device_hits = 0.004493\n\
        device_launch = 3817.0\n\
        device_library = 2965.0\n\
        device_line = 0.03746\n\
        device_line_long = 0.06311\n\
        device_output = 0.00913\n\
        device_pair_line = 0.0598\n\
        device_pair_product = 0.019\n\
        device_score = 0.007669\n\
        device_straight = 5680.0\n\
        device_sum = 0.01199\n\
        device_tap_any = 0.003317\n\
        device_tap_any_f64 = 0.01241\n\
        device_tap_any_u8 = 0.001285\n\
        device_tap_f32 = 0.008457\n\
        device_tap_f64 = 0.01417\n\
        device_tap_tensor = 0.0003091\n\
        device_tap_u8 = 0.003072\n\
        device_tap_volume = 0.003157\n\
        device_tile = 0.04917\n\
        device_tile_scores = 0.1113\n\
        device_transform = 0.04768\n\
        device_trip = 22000.0\n\
        device_volume = 0.04669\n\
        device_volume_scores = 0.04896\n\
        device_window = 0.02315\n\
        device_window_row = 0.2794\n\
        device_window_step = 485.0\n\
    "],
    ["Intel(R) Xeon(R) Processor", "amx", "\
        again = 7.488\n\
        call = 1655.0\n\
        columns = 0.07552\n\
        convert = 0.8897\n\
        copy = 0.7737\n\
        copy_u8 = 0.1401\n\
        difference_f32 = 0.0484\n\
        difference_f64 = 0.08551\n\
        in_place = 0.2012\n\
        library_call = 603.4\n\
        library_f32 = 0.1196\n\
        library_f64 = 0.2748\n\
        library_far = 1.352\n\
        library_line = 7.741\n\
        line_f32 = 0.02494\n\
        line_f64 = 0.1048\n\
        line_pass = 0.6495\n\
        lines = 0.1584\n\
        look = 0.4368\n\
        memory = 0.01419\n\
        own_doubt = 0.007354\n\
        own_far = 0.02673\n\
        pair = 0.1339\n\
        planes = 0.1824\n\
        product = 1.379\n\
        score_f64 = 2.355\n\
        score_integer = 4.835\n\
        score_vector = 1.543\n\
        share = 9000.0\n\
        single = 0.02925\n\
        store_u8 = 0.1054\n\
        tap_column = 0.02411\n\
        tap_deep = 0.0201\n\
        tap_f32 = 0.02098\n\
        tap_f64 = 0.04296\n\
        tap_plane = 0.02181\n\
        tap_row = 1.28\n\
        tap_row_f32 = 0.3362\n\
        tap_u8 = 0.005281\n\
        tile = 781.8\n\
        unit_cycle = 0.8185\n\
        unit_store = 1.651\n\
        window_sum = 4.571\n\
        write = 0.2108\n\
    "],
];
