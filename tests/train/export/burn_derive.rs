//! `#[derive(Module)]` of the stub: the trait for a struct whose fields are modules.
extern crate proc_macro;
use proc_macro::{TokenStream, TokenTree};

#[proc_macro_derive(Module)]
pub fn derive(input: TokenStream) -> TokenStream {
    let mut tokens = input.into_iter();
    tokens.find(|it| matches!(it, TokenTree::Ident(name) if name.to_string() == "struct"));
    let name = tokens.next().expect("a name").to_string();
    let fields = tokens.next().expect("fields").to_string();
    let types: Vec<String> = fields
        .trim_matches(['{', '}', ' ', '\n'])
        .split(",")
        .filter_map(|field| field.split_once(':').map(|(_, kind)| kind.trim().to_string()))
        .collect();
    let checks: String = types.iter().map(|kind| format!("is_module::<{kind}>();")).collect();
    format!(
        "impl burn::module::Module for {name} {{}}
        const _: fn() = || {{ fn is_module<M: burn::module::Module>() {{}} {checks} }};"
    )
    .parse()
    .expect("Rust")
}
