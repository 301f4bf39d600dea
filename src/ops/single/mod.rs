//! One request or one command, without a conversation.

pub mod decide;
pub mod js;
pub mod one_shot;
pub mod sandboxed_command;
pub mod send_text;
pub mod upload;
