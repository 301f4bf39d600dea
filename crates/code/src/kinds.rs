//! The meaning of each grammar's node kinds for cutting: which have members, which belong to the node after them, which
//! open and close. The names are those of the grammars' `node-types.json`.

use tree_sitter::{Language as Grammar, Node};

use super::language::Language;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Role(u8);

impl Role {
    /// Its children are members, elements or statements in a sequence.
    pub(super) const CONTAINER: Self = Self(1);
    /// It belongs to the node after it, unless a blank line separates them.
    pub(super) const COMMENT: Self = Self(2);
    /// It always belongs to the node after it.
    pub(super) const PREFIX: Self = Self(4);
    /// It belongs to the node before it: text between elements, closing tags.
    pub(super) const SUFFIX: Self = Self(8);
    /// It opens a bracket or tag that another token closes.
    pub(super) const OPENER: Self = Self(16);
    /// It closes a bracket or tag.
    pub(super) const CLOSER: Self = Self(32);
    /// It defines something with a name.
    pub(super) const DEFINITION: Self = Self(64);

    pub(super) fn includes(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

pub(super) fn role_of(roles: &[Role], node: Node<'_>) -> Role {
    if node.is_error() {
        // Text that could not be parsed may contain nodes that could.
        return Role::CONTAINER;
    }
    roles.get(usize::from(node.kind_id())).copied().unwrap_or_default()
}

/// Visits nodes in text order, and the children of those for which `visit` returns true.
pub(super) fn visit_nodes<'t>(root: Node<'t>, mut visit: impl FnMut(Node<'t>) -> bool) {
    let mut cursor = root.walk();
    loop {
        if visit(cursor.node()) && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

/// The kinds of one grammar that have a role: names with spaces between them. `comment` is a comment in all of them.
type Table = &'static [(Role, &'static str)];

const PYTHON: Table = &[
    (Role::CONTAINER, "module block list dictionary tuple set argument_list"),
    (Role::DEFINITION, "function_definition class_definition"),
];

const RUST: Table = &[
    (
        Role::CONTAINER,
        "source_file declaration_list block match_block field_declaration_list enum_variant_list \
              field_initializer_list array_expression use_list arguments macro_definition",
    ),
    (Role::COMMENT, "line_comment block_comment"),
    (Role::PREFIX, "attribute_item"),
    (
        Role::DEFINITION,
        "function_item function_signature_item struct_item enum_item union_item trait_item \
              impl_item mod_item macro_definition const_item static_item type_item",
    ),
];

const JAVASCRIPT: Table = &[
    (
        Role::CONTAINER,
        "program statement_block class_body switch_body switch_case object array arguments \
              jsx_element export_clause named_imports",
    ),
    (Role::PREFIX, "decorator"),
    (
        Role::DEFINITION,
        "function_declaration generator_function_declaration class_declaration method_definition",
    ),
];

const TYPESCRIPT: Table = &[
    (
        Role::CONTAINER,
        "program statement_block class_body interface_body object_type enum_body switch_body \
              switch_case object array arguments export_clause named_imports",
    ),
    (Role::PREFIX, "decorator"),
    (
        Role::DEFINITION,
        "function_declaration generator_function_declaration function_signature class_declaration \
              abstract_class_declaration interface_declaration enum_declaration type_alias_declaration \
              internal_module method_definition method_signature abstract_method_signature",
    ),
];

const JSON: Table =
    &[(Role::CONTAINER, "document object array"), (Role::OPENER, "{ ["), (Role::CLOSER, "} ]")];

const YAML: Table =
    &[(Role::CONTAINER, "stream document block_mapping block_sequence flow_mapping flow_sequence")];

const XML: Table = &[
    (Role::CONTAINER, "document content"),
    (Role::COMMENT, "Comment"),
    (Role::SUFFIX, "CharData CharRef EntityRef CDSect"),
    (Role::OPENER, "STag"),
    (Role::CLOSER, "ETag"),
];

const HTML: Table = &[
    (Role::CONTAINER, "document element"),
    (Role::SUFFIX, "text entity start_tag end_tag"),
    (Role::OPENER, "start_tag"),
    (Role::CLOSER, "end_tag erroneous_end_tag"),
];

const GO: Table = &[
    (
        Role::CONTAINER,
        "source_file block statement_list const_declaration var_spec_list type_declaration \
              import_spec_list field_declaration_list interface_type literal_value argument_list \
              expression_switch_statement type_switch_statement select_statement",
    ),
    (Role::DEFINITION, "function_declaration method_declaration type_spec type_alias"),
];

const JAVA: Table = &[
    (
        Role::CONTAINER,
        "program class_body interface_body enum_body enum_body_declarations annotation_type_body \
              module_body block constructor_body switch_block switch_block_statement_group \
              array_initializer argument_list",
    ),
    (Role::COMMENT, "line_comment block_comment"),
    (
        Role::DEFINITION,
        "class_declaration interface_declaration enum_declaration record_declaration \
              annotation_type_declaration method_declaration constructor_declaration \
              compact_constructor_declaration",
    ),
];

const C_CONTAINERS: &str = "translation_unit compound_statement field_declaration_list enumerator_list \
              initializer_list declaration_list case_statement preproc_if preproc_ifdef preproc_else \
              preproc_elif preproc_elifdef argument_list";

const C: Table = &[
    (Role::CONTAINER, C_CONTAINERS),
    (
        Role::DEFINITION,
        "function_definition struct_specifier union_specifier enum_specifier type_definition",
    ),
];

const CPP: Table = &[
    (Role::CONTAINER, C_CONTAINERS),
    (Role::PREFIX, "access_specifier"),
    (
        Role::DEFINITION,
        "function_definition class_specifier struct_specifier union_specifier enum_specifier \
              type_definition namespace_definition template_declaration alias_declaration",
    ),
];

const SHELL: Table = &[
    (
        Role::CONTAINER,
        "program compound_statement do_group subshell if_statement elif_clause else_clause \
              case_statement case_item array",
    ),
    (Role::DEFINITION, "function_definition"),
];

const TOML: Table = &[
    (Role::CONTAINER, "document table table_array_element array inline_table"),
    (Role::DEFINITION, "table table_array_element"),
];

/// The grammar of a language, if it has one, and the roles of its kinds.
fn find_table(language: Language) -> Option<(Grammar, Table)> {
    Some(match language {
        Language::Python => (tree_sitter_python::LANGUAGE.into(), PYTHON),
        Language::Rust => (tree_sitter_rust::LANGUAGE.into(), RUST),
        Language::JavaScript => (tree_sitter_javascript::LANGUAGE.into(), JAVASCRIPT),
        Language::TypeScript => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), TYPESCRIPT),
        Language::Tsx => (tree_sitter_typescript::LANGUAGE_TSX.into(), TYPESCRIPT),
        Language::Json => (tree_sitter_json::LANGUAGE.into(), JSON),
        Language::Yaml => (tree_sitter_yaml::LANGUAGE.into(), YAML),
        Language::Xml => (tree_sitter_xml::LANGUAGE_XML.into(), XML),
        Language::Html => (tree_sitter_html::LANGUAGE.into(), HTML),
        Language::Go => (tree_sitter_go::LANGUAGE.into(), GO),
        Language::Java => (tree_sitter_java::LANGUAGE.into(), JAVA),
        Language::C => (tree_sitter_c::LANGUAGE.into(), C),
        Language::Cpp => (tree_sitter_cpp::LANGUAGE.into(), CPP),
        Language::Shell => (tree_sitter_bash::LANGUAGE.into(), SHELL),
        Language::Toml => (tree_sitter_toml_ng::LANGUAGE.into(), TOML),
        Language::Text | Language::Markdown | Language::JsonLines | Language::Csv => return None,
    })
}

pub(super) fn grammar(language: Language) -> Option<Grammar> {
    find_table(language).map(|(grammar, _)| grammar)
}

pub(super) fn has_definitions(language: Language) -> bool {
    find_table(language)
        .is_some_and(|(_, table)| table.iter().any(|(role, _)| *role == Role::DEFINITION))
}

/// The roles of a grammar's kinds, by their number.
pub(super) fn roles(language: Language, grammar: &Grammar) -> Vec<Role> {
    let mut roles = vec![Role::default(); grammar.node_kind_count()];
    let Some((_, table)) = find_table(language) else { return roles };
    for (id, role) in (0..).zip(&mut roles) {
        let Some(name) = grammar.node_kind_for_id(id) else { continue };
        for (flag, names) in [(Role::COMMENT, "comment")].iter().chain(table) {
            if names.split(' ').any(|one| one == name) {
                role.0 |= flag.0;
            }
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::NAMES;

    #[test]
    fn every_kind_of_the_tables_is_a_kind_of_its_grammar() {
        for (language, ..) in NAMES {
            let Some(grammar) = grammar(language) else { continue };
            let known: Vec<&str> = (0..grammar.node_kind_count())
                .filter_map(|id| grammar.node_kind_for_id(u16::try_from(id).unwrap()))
                .collect();
            let (_, table) = find_table(language).unwrap();
            for (_, names) in table {
                for name in names.split_whitespace() {
                    assert!(known.contains(&name), "{language:?} has no {name}");
                }
            }
        }
    }
}
