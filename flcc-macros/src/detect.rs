//! The question whether a processor has the features of an instruction set.

use flcc_core::isa::Row;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// A `match` over the rows: the macros that ask a processor take names of features as literals only.
pub fn features(rows: &[Row], isa: &TokenStream) -> TokenStream {
    let arms = rows.iter().map(|row| {
        let name = format_ident!("{}", format!("{:?}", row.isa));
        let (Some(arch), Some(features)) = (row.arch, row.features) else {
            return quote!(::flcc_core::isa::Isa::#name => true,);
        };
        let ask = format_ident!("is_{}_feature_detected", if arch == "x86_64" { "x86" } else { arch });
        let asked = features.split(',').map(|feature| quote!(::std::arch::#ask!(#feature)));
        quote!(#[cfg(target_arch = #arch)] ::flcc_core::isa::Isa::#name => #(#asked)&&*,)
    });
    quote! {
        match #isa {
            #(#arms)*
            _ => false,
        }
    }
}
