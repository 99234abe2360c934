//! Rendered by `cargo xtask gen` from the profiles in profiles/: what work costs on machines that were measured.

/// Processors by name, the best instruction set measured with, and costs as
/// [`Costs::read`](crate::plan::cost::Costs::read) takes them.
#[rustfmt::skip]
pub const PROFILES: &[[&str; 3]] = &[
    ["NVIDIA H200", "sm_90", "\
        device_again = 1.5493165407615226\n\
        device_bind = 134578.6115917378\n\
        device_call = 24813.364254514738\n\
        device_copy = 0.08308328215713003\n\
        device_fused = 0.005527039345897621\n\
        device_library = 38244.968972295974\n\
        device_output = 0.010213918986134527\n\
        device_score = 0.022405683181625804\n\
        device_straight = 7914.335440847059\n\
        device_sum = 0.02246825732155898\n\
        device_tap_any = 0.003260524815814422\n\
        device_tap_f32 = 0.005617191269398175\n\
        device_tap_f64 = 0.016724035931858273\n\
        device_tap_u8 = 0.0031560711859033065\n\
        device_tile = 0.032707679735874615\n\
        device_transform = 0.037525765374439135\n\
        device_trip = 22002.917328900297\n\
        device_window_row = 0.25\n\
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
