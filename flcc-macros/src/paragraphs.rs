//! Texts of the invoking package as their paragraphs.

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Result, Token};

/// For each of some files, whose names are the input, a list of its paragraphs; `root` is the folder of the package.
pub fn of_files(root: &Path, input: TokenStream) -> Result<TokenStream> {
    let files = Punctuated::<LitStr, Token![,]>::parse_terminated.parse2(input)?;
    let (mut paths, mut lists) = (Vec::new(), Vec::new());
    for file in &files {
        let path = root.join(file.value());
        let failed = |what: &str| Error::new(file.span(), format!("{}: {what}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| failed(&error.to_string()))?;
        let paragraphs = text.split_inclusive("\n\n");
        lists.push(quote!(&[#(#paragraphs),*]));
        paths.push(path.to_str().ok_or_else(|| failed("no UTF-8"))?.to_owned());
    }
    // The bytes tell the compiler that it reads the files; a constant without a name is not kept.
    Ok(quote! {{
        #(const _: &[u8] = include_bytes!(#paths);)*
        &[#(#lists),*]
    }})
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn files_come_in_paragraphs() {
        let folder = env::temp_dir().join(format!("flcc-paragraphs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("one"), "a\nb\n\nc\n\n\nd\n").unwrap();
        fs::write(folder.join("two"), "a\n").unwrap();
        let found = of_files(&folder, quote!("one", "two")).unwrap().to_string();
        assert!(found.contains(r#"& [& ["a\nb\n\n" , "c\n\n" , "\nd\n"] , & ["a\n"]]"#), "{found}");
        fs::remove_dir_all(&folder).unwrap();
        let missing = of_files(&folder, quote!("one")).unwrap_err();
        assert!(missing.to_string().contains("one: "), "{missing}");
        assert!(of_files(&folder, quote!(1)).is_err());
    }
}
