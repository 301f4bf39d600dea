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

/// The kinds of one grammar: names with spaces between them.
struct Table {
    containers: &'static str,
    comments: &'static str,
    prefixes: &'static str,
    suffixes: &'static str,
    openers: &'static str,
    closers: &'static str,
    definitions: &'static str,
}

const NONE: Table = Table {
    containers: "",
    comments: "comment",
    prefixes: "",
    suffixes: "",
    openers: "",
    closers: "",
    definitions: "",
};

const PYTHON: Table = Table {
    containers: "module block list dictionary tuple set argument_list",
    definitions: "function_definition class_definition",
    ..NONE
};

const RUST: Table = Table {
    containers: "source_file declaration_list block match_block field_declaration_list enum_variant_list \
              field_initializer_list array_expression use_list arguments macro_definition",
    comments: "line_comment block_comment",
    prefixes: "attribute_item",
    definitions: "function_item function_signature_item struct_item enum_item union_item trait_item \
              impl_item mod_item macro_definition const_item static_item type_item",
    ..NONE
};

const JAVASCRIPT: Table = Table {
    containers: "program statement_block class_body switch_body switch_case object array arguments \
              jsx_element export_clause named_imports",
    prefixes: "decorator",
    definitions: "function_declaration generator_function_declaration class_declaration method_definition",
    ..NONE
};

const TYPESCRIPT: Table = Table {
    containers: "program statement_block class_body interface_body object_type enum_body switch_body \
              switch_case object array arguments export_clause named_imports",
    prefixes: "decorator",
    definitions: "function_declaration generator_function_declaration function_signature class_declaration \
              abstract_class_declaration interface_declaration enum_declaration type_alias_declaration \
              internal_module method_definition method_signature abstract_method_signature",
    ..NONE
};

const JSON: Table =
    Table { containers: "document object array", openers: "{ [", closers: "} ]", ..NONE };

const YAML: Table = Table {
    containers: "stream document block_mapping block_sequence flow_mapping flow_sequence",
    ..NONE
};

const XML: Table = Table {
    containers: "document content",
    comments: "Comment",
    suffixes: "CharData CharRef EntityRef CDSect",
    openers: "STag",
    closers: "ETag",
    ..NONE
};

const HTML: Table = Table {
    containers: "document element",
    suffixes: "text entity start_tag end_tag",
    openers: "start_tag",
    closers: "end_tag erroneous_end_tag",
    ..NONE
};

const GO: Table = Table {
    containers: "source_file block statement_list const_declaration var_spec_list type_declaration \
              import_spec_list field_declaration_list interface_type literal_value argument_list \
              expression_switch_statement type_switch_statement select_statement",
    definitions: "function_declaration method_declaration type_spec type_alias",
    ..NONE
};

const JAVA: Table = Table {
    containers: "program class_body interface_body enum_body enum_body_declarations annotation_type_body \
              module_body block constructor_body switch_block switch_block_statement_group \
              array_initializer argument_list",
    comments: "line_comment block_comment",
    definitions: "class_declaration interface_declaration enum_declaration record_declaration \
              annotation_type_declaration method_declaration constructor_declaration \
              compact_constructor_declaration",
    ..NONE
};

const C: Table = Table {
    containers: "translation_unit compound_statement field_declaration_list enumerator_list \
              initializer_list declaration_list case_statement preproc_if preproc_ifdef preproc_else \
              preproc_elif preproc_elifdef argument_list",
    definitions: "function_definition struct_specifier union_specifier enum_specifier type_definition",
    ..NONE
};

const CPP: Table = Table {
    prefixes: "access_specifier",
    definitions: "function_definition class_specifier struct_specifier union_specifier enum_specifier \
              type_definition namespace_definition template_declaration alias_declaration",
    ..C
};

const SHELL: Table = Table {
    containers: "program compound_statement do_group subshell if_statement elif_clause else_clause \
              case_statement case_item array",
    definitions: "function_definition",
    ..NONE
};

const TOML: Table = Table {
    containers: "document table table_array_element array inline_table",
    definitions: "table table_array_element",
    ..NONE
};

/// The grammar of a language, if it has one, and the roles of its kinds.
fn find_table(language: Language) -> Option<(Grammar, &'static Table)> {
    Some(match language {
        Language::Python => (tree_sitter_python::LANGUAGE.into(), &PYTHON),
        Language::Rust => (tree_sitter_rust::LANGUAGE.into(), &RUST),
        Language::JavaScript => (tree_sitter_javascript::LANGUAGE.into(), &JAVASCRIPT),
        Language::TypeScript => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), &TYPESCRIPT),
        Language::Tsx => (tree_sitter_typescript::LANGUAGE_TSX.into(), &TYPESCRIPT),
        Language::Json => (tree_sitter_json::LANGUAGE.into(), &JSON),
        Language::Yaml => (tree_sitter_yaml::LANGUAGE.into(), &YAML),
        Language::Xml => (tree_sitter_xml::LANGUAGE_XML.into(), &XML),
        Language::Html => (tree_sitter_html::LANGUAGE.into(), &HTML),
        Language::Go => (tree_sitter_go::LANGUAGE.into(), &GO),
        Language::Java => (tree_sitter_java::LANGUAGE.into(), &JAVA),
        Language::C => (tree_sitter_c::LANGUAGE.into(), &C),
        Language::Cpp => (tree_sitter_cpp::LANGUAGE.into(), &CPP),
        Language::Shell => (tree_sitter_bash::LANGUAGE.into(), &SHELL),
        Language::Toml => (tree_sitter_toml_ng::LANGUAGE.into(), &TOML),
        Language::Text | Language::Markdown | Language::JsonLines | Language::Csv => return None,
    })
}

pub(super) fn grammar(language: Language) -> Option<Grammar> {
    find_table(language).map(|(grammar, _)| grammar)
}

pub(super) fn has_definitions(language: Language) -> bool {
    find_table(language).is_some_and(|(_, table)| !table.definitions.is_empty())
}

/// The roles of a grammar's kinds, by their number.
pub(super) fn roles(language: Language, grammar: &Grammar) -> Vec<Role> {
    let mut roles = vec![Role::default(); grammar.node_kind_count()];
    let Some((_, table)) = find_table(language) else { return roles };
    for (id, role) in (0..).zip(&mut roles) {
        let Some(name) = grammar.node_kind_for_id(id) else { continue };
        for (names, flag) in table.lists() {
            if names.split(' ').any(|one| one == name) {
                role.0 |= flag.0;
            }
        }
    }
    roles
}

impl Table {
    fn lists(&self) -> [(&'static str, Role); 7] {
        [
            (self.containers, Role::CONTAINER),
            (self.comments, Role::COMMENT),
            (self.prefixes, Role::PREFIX),
            (self.suffixes, Role::SUFFIX),
            (self.openers, Role::OPENER),
            (self.closers, Role::CLOSER),
            (self.definitions, Role::DEFINITION),
        ]
    }
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
            for (names, _) in table.lists() {
                for name in names.split_whitespace() {
                    assert!(known.contains(&name), "{language:?} has no {name}");
                }
            }
        }
    }
}
