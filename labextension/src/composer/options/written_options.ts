/** The options that a prompt may bring along. Written by `make written` from the table in Python. */

export type OptionName = "max_turns" | "budget_usd" | "provider" | "max_tokens" | "max_parallel_tools" | "tool_timeout" | "allow" | "deny" | "add_dirs" | "on_denied" | "branch" | "fallback_models" | "agent" | "tools" | "no_tools" | "system_prompt" | "append_system_prompt";

/** The values of the options that have some of their own. */
export const OPTION_VALUES = {
  provider: ["api", "claude-code"],
  on_denied: ["ask", "skip", "error"],
} as const;
