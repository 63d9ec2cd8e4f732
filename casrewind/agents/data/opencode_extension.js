// casrewind for OpenCode: every prompt and every finished turn is a checkpoint.
// Written by casrewind install opencode. casrewind uninstall opencode removes it; an edited copy is left alone.
// digest 0
// It tells casrewind about OpenCode's events: a command with JSON on its standard input. It never throws, so a failure costs
// a checkpoint and no turn. OpenCode waits for prompts and tools; other events are finished before it ends.

const COMMAND = ["casrewind"];
const EVENTS = {};

const START = 16 // characters of a message's id that a copy of the message keeps
const pending = new Set()
const seen = new Map() // session: the newest message's id
const starting = new Map() // session: the work of its start, which its first prompt waits for
const children = new Set() // sessions of subagents

async function run(event, payload) {
  const words = [...COMMAND, "hook", "opencode"]
  const environment = { ...process.env, OPENCODE_PID: String(process.pid) }
  const input = Buffer.from(JSON.stringify({ hook_event_name: event, ...payload }))
  const child = Bun.spawn(words, { stdin: input, stdout: "pipe", stderr: "ignore", env: environment })
  const timer = setTimeout(() => child.kill(), EVENTS[event] * 1000)
  const said = new Response(child.stdout).text()
  await child.exited
  clearTimeout(timer)
  return event === "UserPromptSubmit" ? await said : ""
}

async function tell(event, session, directory, more) {
  if (!(event in EVENTS) || typeof session !== "string") return
  const payload = { session_id: session, cwd: directory, turn_id: seen.get(session) || "", ...more }
  const work = run(event, payload).catch(() => "")
  pending.add(work)
  const said = await work
  pending.delete(work)
  return said
}

/** What casrewind says to the model, as a part beside the prompt's own. */
function aside(said, output) {
  const text = said ? JSON.parse(said).hookSpecificOutput?.additionalContext : ""
  if (!text) return
  const id = output.parts.at(-1).id.slice(0, START) + "z".repeat(14) // behind the parts that are there
  output.parts.push({ id, sessionID: output.message.sessionID, messageID: output.message.id, type: "text", text, synthetic: true })
}

function start(session, directory, source) {
  if (seen.has(session) || children.has(session)) return
  seen.set(session, "")
  starting.set(session, tell("SessionStart", session, directory, { source, turn_id: source === "new" ? "new" : "" }))
}

function prompt(parts) {
  return parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
}

async function safely(work) {
  try {
    await work()
  } catch {
    // a client must not suffer from a checkpoint that fails
  }
}

export const Casrewind = async ({ directory }) => ({
  "chat.message": (input, output) => safely(async () => {
    const session = input.sessionID
    if (children.has(session)) return
    start(session, directory, "resume")
    await starting.get(session)
    const id = output.message.id.slice(0, START)
    const text = prompt(output.parts)
    const said = text ? await tell("UserPromptSubmit", session, directory, { message_id: id, prompt: text }) : ""
    seen.set(session, id)
    aside(said, output)
  }),
  "tool.execute.before": (input) => safely(() =>
    tell("PreToolUse", input.sessionID, directory, { tool_name: input.tool, tool_use_id: input.callID })),
  "tool.execute.after": (input) => safely(() =>
    tell("PostToolUse", input.sessionID, directory, { tool_name: input.tool, tool_use_id: input.callID })),
  "experimental.session.compacting": (input) => safely(() => tell("PreCompact", input.sessionID, directory, {})),
  event: ({ event }) => safely(async () => {
    const { sessionID, info } = event.properties || {}
    if (event.type === "session.created") {
      if (info.parentID) children.add(info.id)
      else start(info.id, directory, "new")
    } else if (event.type === "message.updated" && seen.has(info.sessionID)) {
      seen.set(info.sessionID, info.id.slice(0, START))
    } else if (event.type === "session.idle") {
      if (children.has(sessionID)) await tell("SubagentStop", sessionID, directory, { agent_id: sessionID })
      else await tell("Stop", sessionID, directory, {})
    }
  }),
  dispose: () => safely(async () => {
    await Promise.all(pending)
    await Promise.all([...seen.keys()].map((session) => tell("SessionEnd", session, directory, { reason: "exit" })))
  }),
})
