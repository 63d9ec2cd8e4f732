// casrewind for Pi: every prompt and every finished run is a checkpoint, and /fork and /tree ask about the files.
// Written by casrewind install pi. casrewind uninstall pi removes it; an edited copy is left alone.
// digest 0
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const COMMAND = ["casrewind"];
const EVENTS = {};
const HARMLESS = [];

const CHAT = "Conversation only, the files stay";
const FILES = "Files only, the conversation stays";
const BOTH = "Files and conversation";
const UNDO = "Undo the last restore";
const CANCEL = "Cancel";
const CHOICES = { chat: CHAT, files: FILES, both: BOTH, undo: UNDO, cancel: CANCEL };
const LOOK_SECONDS = 10;
const COMMAND_SECONDS = 30;
const RESTORE_SECONDS = 300; // a restore goes on behind that, and only the wait ends
const MOST = 1 << 20; // characters of output that are kept
const NAMED = 10; // paths that are named after a restore
const OFFERED = 10; // prompts that a bare /casrewind offers
const NOW = "(current)  the files and the conversation stay as they are";
const MESSAGES = ["user", "assistant", "toolResult", "bashExecution"];
const SIGNS = { added: "+", removed: "-" };
const INCOMPLETE = 3; // the exit code of a restore that left something alone
const CHANGES = ["back", "jump", "redo", "restore", "revert", "undo"]; // what shows a plan first
const STARTS = ["SessionStart", "UserPromptSubmit"];
const IS_TRIAL = Boolean(process.env.CASREWIND_TRIAL); // doctor looks: no event is reported

// What outlives a change of session, for which Pi may load this file again.
const shared = (globalThis[Symbol.for("casrewind.pi")] ??= { started: null, said: null, waiting: null });

/** Run casrewind. Resolves to {code, out, err}, never throws, and waits for `seconds` at most. */
const run = (args, { payload, seconds, cwd, keep = false, env }) =>
  new Promise((resolve) => {
    let child;
    let isOver = false;
    const said = { out: "", err: "" };
    const end = (code) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(clock);
      resolve({ code, ...said });
    };
    const clock = setTimeout(() => {
      try {
        if (!keep) child.kill("SIGTERM");
        child.unref();
      } catch {}
      end(124);
    }, seconds * 1000);
    try {
      child = spawn(COMMAND[0], [...COMMAND.slice(1), ...args], {
        cwd,
        env: env ?? process.env,
        stdio: ["pipe", "pipe", "pipe"],
        detached: true, // an interrupt at the terminal is for Pi
      });
    } catch {
      end(127);
      return;
    }
    child.on("error", () => end(127));
    child.on("close", (code) => end(code ?? 1));
    for (const [name, stream] of [["out", child.stdout], ["err", child.stderr]]) {
      stream.setEncoding("utf8");
      stream.on("data", (piece) => {
        if (said[name].length < MOST) said[name] += piece;
      });
      stream.on("error", () => {});
    }
    child.stdin.on("error", () => {});
    child.stdin.end(payload === undefined ? "" : JSON.stringify(payload));
  });

/** Run a command of casrewind's as a person would. */
const command = (args, ctx, seconds = LOOK_SECONDS, keep = false, session = "1") =>
  run(args, { seconds, keep, cwd: ctx.cwd, env: { ...process.env, CASREWIND_INSIDE: session, CASREWIND_TYPED_NAME: "/casrewind", NO_COLOR: "1" } });

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

/** True if Pi's settings hide the footer, under the name that extensions before this one gave it. */
const isSilent = () => {
  try {
    const place = process.env.PI_CODING_AGENT_DIR || join(homedir(), ".pi", "agent");
    return parsed(readFileSync(join(place, "settings.json"), "utf8"))?.rewind?.silentCheckpoints === true;
  } catch {
    return false; // there are no settings
  }
};

const isMessage = (entry, role) => entry?.type === "message" && entry.message?.role === role;

const textOf = (entry) => {
  const content = entry.message.content;
  if (typeof content === "string") return content;
  return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
};

/** The id in a session file's name. */
const idIn = (path) => /_([\w-]+)\.jsonl$/.exec(path ?? "")?.[1];

const place = (ctx) => {
  const manager = ctx.sessionManager;
  return {
    session_id: manager.getSessionId(),
    transcript_path: manager.getSessionFile() ?? null,
    cwd: ctx.cwd,
    leaf_id: manager.getLeafId() ?? "",
    previous_session_id: idIn(manager.getHeader()?.parentSession),
  };
};

/** The person's messages on the branch on which the session stands. */
const prompts = (ctx) => ctx.sessionManager.getBranch().filter((entry) => isMessage(entry, "user"));

/** True if the conversation was moved in the tree to where this prompt follows. */
const isMoved = (user, ctx) => {
  const above = ctx.sessionManager.getEntry(user.parentId);
  return above?.type === "branch_summary" || (above?.type === "custom" && above.customType === "casrewind");
};

const isPlace = (entry) => entry.type === "message" && MESSAGES.includes(entry.message?.role);

/** The entry whose files those are that are there before a tool runs: the one above the message that calls it. What is bound to the
 * message itself is what its tools left, whichever of the two saves was made. */
const aboveCall = (call, ctx) => {
  const manager = ctx.sessionManager;
  const parentOf = (one) => (one?.parentId ? manager.getEntry(one.parentId) : undefined);
  const calls = (one) => isMessage(one, "assistant") && (one.message.content ?? []).some((block) => block.type === "toolCall" && block.id === call);
  const leaf = manager.getEntry(manager.getLeafId() ?? "");
  let caller = leaf;
  while (caller && !calls(caller)) caller = isMessage(caller, "user") ? undefined : parentOf(caller);
  let entry = caller ? parentOf(caller) : leaf; // without a caller the message is not in the session yet
  while (entry && !isPlace(entry)) entry = parentOf(entry);
  return entry?.id ?? "";
};

/** The ids that stand for an entry: its own, those of entries above it that changed no file, and of its tools' results. */
const idsOf = (id, ctx) => {
  const manager = ctx.sessionManager;
  const ids = [];
  let entry = manager.getEntry(id);
  while (entry) {
    ids.push(entry.id);
    if (isPlace(entry)) break;
    entry = entry.parentId ? manager.getEntry(entry.parentId) : undefined;
  }
  if (isMessage(entry, "assistant")) {
    const known = new Set([entry.id]);
    for (const other of manager.getEntries()) {
      if (isMessage(other, "toolResult") && known.has(other.parentId)) {
        known.add(other.id);
        ids.push(other.id);
      }
    }
  }
  return ids;
};

/** What casrewind says of a moment of this session. */
const asked = (words, ctx) => command(["at", "--json", "--session", ctx.sessionManager.getSessionId(), ...words], ctx);

/** {checkpoint, written, removed, plan, problem, label, pinned, checkpoints, undo} for an entry, null when casrewind does not say. */
const look = async (ids, ctx) => {
  const found = await asked(ids.length ? ["--entry", ids.join(",")] : [], ctx);
  return found.code === 0 ? parsed(found.out) : null;
};

const say = (ctx, text, kind = "info") => {
  shared.said = text;
  try {
    if (ctx.hasUI) ctx.ui.notify(text, kind);
  } catch {} // the session was replaced meanwhile
};

/** Say once more what was said before a move: Pi draws the conversation anew behind it, and that is gone from the screen. */
const sayAgain = (ctx) => {
  const text = shared.said;
  shared.said = null;
  if (text) setTimeout(() => say(ctx, text), 200).unref?.();
};

/** A text without what a terminal would obey. */
const inOneLine = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");

const numbers = (done) => {
  const found = parsed(done.out);
  return found ? `${found.restored} written, ${found.removed} removed` : "done";
};

/** The first paths of a restore by name, removals first. */
const names = (done) => {
  const changes = parsed(done.out)?.changes ?? [];
  const sorted = [...changes.filter((one) => one.status === "removed"), ...changes.filter((one) => one.status !== "removed")];
  const more = sorted.length > NAMED ? [`  ... and ${sorted.length - NAMED} more`] : [];
  return [...sorted.slice(0, NAMED).map((one) => `  ${SIGNS[one.status] ?? "~"} ${inOneLine(one.path)}`), ...more].map((line) => `\n${line}`).join("");
};

/** The first paths that a restore left alone, each with the reason. */
const left = (done) =>
  (parsed(done.out)?.skipped ?? []).slice(0, NAMED).map((one) => `\n  left alone: ${inOneLine(one.path)}: ${inOneLine(one.reason)}`).join("");

/** Make the files what they were at a checkpoint, or undo that; false when they could not be, or only a plan was shown. */
const restore = async (args, name, ctx) => {
  const session = ctx.sessionManager.getSessionId();
  const done = await command(args, ctx, RESTORE_SECONDS, true, session);
  const { plan, agree } = parsed(done.out) ?? {};
  if (plan) {
    shared.waiting = { session, words: agree.split(" ") };
    say(ctx, plan);
    return false;
  }
  if (done.code === 0) say(ctx, `casrewind: ${name}: ${numbers(done)}; /casrewind undo takes it back${names(done)}`);
  else if (done.code === INCOMPLETE) say(ctx, `casrewind: ${name}, but not all of it: ${numbers(done)}${names(done)}${left(done)}`, "warning");
  else if (done.code === 124) say(ctx, "casrewind is still at it; /casrewind status says when it is done", "warning");
  else say(ctx, `casrewind: the files were not restored: ${done.err.trim().slice(-500) || done.code}`, "error");
  return done.code === 0 || done.code === INCOMPLETE;
};

export default function casrewind(pi) {
  let reported = null; // the id of the prompt that was reported last
  let settled = null; // the entry that a command of ours goes to: its files were dealt with
  let answer = null; // what another extension answered beforehand
  let here = null; // the newest context
  let isLooking = false;
  const told = new Map(); // what the model is told beside a prompt, by the prompt's timestamp: Pi does not keep it
  let labels = new Map(); // the labels of the session that have their pins
  let work = Promise.resolve(); // pins are made one after the other

  // -- events

  const hook = async (name, ctx, more = {}) => {
    here = ctx;
    if (IS_TRIAL || !(name in EVENTS)) return;
    const words = ["hook", "pi"];
    const payload = { hook_event_name: name, ...place(ctx), ...more };
    return run(words, { payload, seconds: EVENTS[name], cwd: ctx.cwd });
  };

  // A Pi that another Pi's tool started is a subagent: nobody types its prompts.
  const above = process.env.CASREWIND_PI_PROCESS;
  const isNested = Boolean(above) && above !== String(process.pid);
  const parent = isNested ? parsed(process.env.CASREWIND_PI_PLACE ?? "") : null;
  const isSubagent = (ctx) => Boolean(parent?.session_id) && !ctx.hasUI;
  const mark = (ctx) => {
    process.env.CASREWIND_PI_PROCESS = String(process.pid);
    process.env.CASREWIND_PI_PLACE = JSON.stringify({ ...place(ctx), prompt_id: reported ?? undefined });
  };

  /** Report the newest prompt of the branch if it is a new one. Steering and messages over RPC come here, too. */
  const prompted = async (ctx) => {
    const user = prompts(ctx).at(-1);
    if (!user || user.id === reported || isSubagent(ctx)) return;
    reported = user.id; // before the wait: calls of tools may come at once
    const source = isMoved(user, ctx) ? "tree" : undefined;
    const done = await hook("UserPromptSubmit", ctx, { prompt_id: user.id, parent_id: user.parentId, prompt: textOf(user), source });
    const text = parsed(done?.out)?.hookSpecificOutput?.additionalContext;
    if (text) told.set(user.message.timestamp, text);
    count(ctx);
  };

  pi.on("session_start", async (event, ctx) => {
    reported = prompts(ctx).at(-1)?.id ?? null;
    labels = new Map();
    if (isSubagent(ctx)) return;
    mark(ctx);
    const started = `${ctx.sessionManager.getSessionId()} ${event.reason}`;
    if (shared.started === started) return; // over RPC it comes twice
    shared.started = started;
    await hook("SessionStart", ctx, { source: event.reason });
    if (event.reason === "fork") sayAgain(ctx);
    count(ctx);
    mirror(ctx);
  });
  pi.on("context", async (event, ctx) => {
    await prompted(ctx);
    if (told.size === 0) return undefined;
    const messages = event.messages.map((message) => {
      const text = message.role === "user" ? told.get(message.timestamp) : undefined;
      if (!text) return message;
      const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
      return { ...message, content: [...content, { type: "text", text }] };
    });
    return { messages };
  });
  pi.on("tool_call", async (event, ctx) => {
    await prompted(ctx);
    if (isSubagent(ctx)) return;
    mark(ctx);
    if (HARMLESS.includes(event.toolName)) return;
    await hook("PreToolUse", ctx, {
      leaf_id: aboveCall(event.toolCallId, ctx), tool_name: event.toolName, tool_use_id: event.toolCallId, prompt_id: reported,
    });
  });
  pi.on("turn_end", async (event, ctx) => {
    await prompted(ctx);
    const calls = (event.toolResults ?? []).map((one) => ({ tool_name: one.toolName, tool_use_id: one.toolCallId }));
    if (isSubagent(ctx) || calls.every((call) => HARMLESS.includes(call.tool_name))) return;
    await hook("PostToolBatch", ctx, { tool_calls: calls, prompt_id: reported });
  });
  pi.on("agent_end", async (_event, ctx) => {
    if (isSubagent(ctx)) {
      await hook("SubagentStop", ctx, { ...parent, agent_id: ctx.sessionManager.getSessionId(), agent_type: "pi" });
      return;
    }
    await prompted(ctx);
    await hook("Stop", ctx, { prompt_id: reported });
    count(ctx);
    mirror(ctx);
  });
  pi.on("session_before_compact", async (event, ctx) => {
    if (!isSubagent(ctx)) await hook("PreCompact", ctx, { trigger: event.reason ?? "", prompt_id: reported });
  });
  pi.on("session_shutdown", async (event, ctx) => {
    if (isSubagent(ctx)) return;
    shared.started = null;
    mirror(ctx);
    await Promise.race([work, new Promise((resolve) => setTimeout(resolve, 3000))]);
    await hook("SessionEnd", ctx, { reason: event.reason ?? "quit" });
  });

  // -- the footer, and labels as pins: both are looked after while Pi goes on

  const count = (ctx) => {
    if (IS_TRIAL || isLooking || !ctx.hasUI || isSilent()) return;
    isLooking = true;
    look([], ctx)
      .then((found) => {
        if (found) ctx.ui.setStatus("casrewind", `${found.checkpoints} checkpoint${found.checkpoints === 1 ? "" : "s"}`);
      })
      .catch(() => {})
      .finally(() => {
        isLooking = false;
      });
  };

  const labelled = (ctx) => {
    const found = new Map();
    for (const entry of ctx.sessionManager.getEntries()) {
      if (entry.type !== "label") continue;
      if (entry.label) found.set(entry.targetId, entry.label);
      else found.delete(entry.targetId);
    }
    return found;
  };

  /** Pin the checkpoints of labelled entries, and unpin those that lost their labels. */
  const mirror = (ctx) => {
    if (IS_TRIAL) return;
    const now = labelled(ctx);
    const before = labels;
    labels = now;
    for (const id of new Set([...before.keys(), ...now.keys()])) {
      if (before.get(id) === now.get(id)) continue;
      const ids = idsOf(id, ctx);
      if (ids.length) work = work.then(() => pin(id, ids, now.get(id), ctx)).catch(() => {});
    }
  };

  const pin = async (id, ids, label, ctx) => {
    const state = await look(ids, ctx);
    if (!state?.checkpoint) return;
    const isOurs = (state.label ?? "").startsWith("pi:");
    if (label === undefined) {
      if (isOurs) await command(["unpin", state.checkpoint], ctx);
      return;
    }
    // A label that a person gave the checkpoint stays.
    if (state.label && !isOurs) {
      if (!state.pinned) await command(["pin", state.checkpoint], ctx);
      return;
    }
    const name = `pi:${inOneLine(label).trim().slice(0, 100)}`;
    const done = await command(["pin", state.checkpoint, name], ctx);
    if (done.code !== 0) await command(["pin", state.checkpoint, `${name} (${id})`], ctx); // another has that name
  };

  // -- the question

  /** Ask about the files of an entry; true when the conversation may go there. */
  const ask = async (id, ctx, signal) => {
    const before = answer && (!answer.entry || answer.entry === id) ? CHOICES[answer.choice] : undefined;
    answer = null;
    if (id === settled) return true;
    shared.said = null;
    if (IS_TRIAL || (!ctx.hasUI && !before)) return true;
    const state = await look(idsOf(id, ctx), ctx);
    const paths = (state?.written ?? 0) + (state?.removed ?? 0);
    const isThere = paths === 0 && !state?.problem;
    if (!state?.checkpoint || (isThere && (!state.is_restored || (before && before !== UNDO)))) return before !== CANCEL;
    const differ = `${paths} path${paths === 1 ? " differs" : "s differ"} from then (a restore writes ${state.written} and removes ${state.removed})`;
    const restored = "the newest restore made the files what they were then";
    const title = `casrewind: ${state.problem ? `the files cannot be restored: ${state.problem}` : isThere ? restored : `${differ}\n${state.plan}`}`;
    const options = [CHAT, ...(state.problem || isThere ? [] : [FILES, BOTH]), ...(state.undo ? [UNDO] : []), CANCEL];
    const choice = before ?? (await ctx.ui.select(title, options, { signal }));
    if (choice === CHAT) return true;
    if (choice === UNDO) await restore(["undo", "--yes", "--json"], "undone", ctx);
    if (choice !== FILES && choice !== BOTH) return false;
    const isDone = await restore(["restore", state.checkpoint, "--yes", "--json"], "files restored", ctx);
    count(ctx);
    return isDone && choice === BOTH; // files that could not be restored keep the conversation where it is
  };

  pi.on("session_before_fork", async (event, ctx) => {
    if (event.position !== "at" && !(await ask(event.entryId, ctx, event.signal))) return { cancel: true };
  });
  pi.on("session_before_tree", async (event, ctx) => {
    if (!(await ask(event.preparation.targetId, ctx, event.signal))) return { cancel: true };
  });
  // Pi keeps a move in memory only until something is said there. An entry makes it last.
  pi.on("session_tree", (event, ctx) => {
    reported = prompts(ctx).at(-1)?.id ?? null;
    if (!event.summaryEntry) pi.appendEntry("casrewind", { op: "tree", from: event.oldLeafId, to: event.newLeafId });
    mirror(ctx);
    sayAgain(ctx);
  });

  // -- other extensions

  pi.events?.on("casrewind:answer", (given) => {
    if (given?.choice in CHOICES) answer = { choice: given.choice, entry: given.entry };
  });
  pi.events?.on("casrewind:at", async (given) => {
    if (here && typeof given?.reply === "function") given.reply(await look(idsOf(given.entry, here), here).catch(() => null));
  });

  /** Answer another extension: with what `work` finds, or with an error. */
  const reply = async (given, work) => {
    if (typeof given?.reply !== "function") return;
    given.reply(here ? await work(here).catch((error) => ({ error: String(error) })) : { error: "no session has started" });
  };
  const result = (done) => parsed(done.out) ?? { error: done.err.trim().slice(-500) || `no answer (${done.code})` };

  pi.events?.on("casrewind:list", (given) =>
    reply(given, async (ctx) => {
      const found = result(await command(["list", "--json", "-n", String(given.number ?? 20)], ctx));
      return found.error ? found : { turns: found.turns };
    }),
  );
  pi.events?.on("casrewind:back", (given) =>
    reply(given, async (ctx) => {
      const state = await look(idsOf(given.entry, ctx), ctx);
      if (!state?.checkpoint) return { error: "no checkpoint was made for that entry" };
      const done = result(await command(["restore", state.checkpoint, "--yes", "--json"], ctx, RESTORE_SECONDS, true));
      count(ctx);
      return done;
    }),
  );

  // -- /casrewind

  /** Go back to before a prompt, in Pi's own way: files first, then the tree of this session, or a fork. What would happen to the
   * files is shown first, unless it is one small turn; the line with `yes` that is shown with it does it. */
  const back = async (typed, ctx) => {
    const yes = typed.indexOf("yes");
    const words = yes < 0 ? typed : typed.slice(0, yes);
    const isNumber = (word) => /^@?[1-9]\d*$/.test(word);
    const number = words.find(isNumber)?.replace("@", "");
    const unknown = words.find((word) => !isNumber(word) && !["--chat", "--fork"].includes(word));
    if (unknown) return say(ctx, `casrewind: back takes N, --chat and --fork, and not ${unknown}`, "error");
    let target = prompts(ctx).at(-1);
    if (number) {
      const found = await asked(["--turn", number], ctx);
      if (found.code !== 0) return say(ctx, found.err.trim().slice(-500) || `casrewind: no answer (${found.code})`, "error");
      const entry = parsed(found.out)?.entry;
      target = prompts(ctx).find((one) => one.id === entry);
      if (!target) return say(ctx, `casrewind: @${number} is not on this branch of the session`, "error");
    }
    if (!target) return say(ctx, "casrewind: there is no prompt to go back to", "error");
    shared.said = null;
    if (!words.includes("--chat")) {
      const state = await look(idsOf(target.id, ctx), ctx);
      if (!state?.checkpoint) {
        return say(ctx, "casrewind: no checkpoint was made for that prompt; --chat moves the conversation alone", "error");
      }
      const args = ["restore", state.checkpoint, "--json", `--typed=${["back", ...typed].join(" ")}`];
      const isSame = state.written + state.removed === 0 && !state.problem;
      if (!isSame && !(await restore(args, "files restored", ctx))) return;
      count(ctx);
    }
    const restored = shared.said ? `${shared.said}\n` : ""; // Pi shows only the newest of two notes
    settled = target.id;
    try {
      if (words.includes("--fork")) {
        await ctx.fork(target.id); // the new session says what was restored
        return;
      }
      shared.said = null;
      const moved = await ctx.navigateTree(target.id, { summarize: false });
      if (moved?.cancelled) return say(ctx, `${restored}casrewind: the conversation stays where it is`, "warning");
    } finally {
      settled = null;
    }
    if (ctx.mode === "tui" || ctx.mode === undefined) ctx.ui.setEditorText(textOf(target));
    say(ctx, `${restored}casrewind: the conversation is where it was before: ${textOf(target).split("\n")[0].slice(0, 80)}`);
  };

  /** Offer the newest prompts of this branch; false if there is none. */
  const choose = async (ctx) => {
    const branch = new Set(prompts(ctx).map((one) => one.id));
    const found = (parsed((await asked(["-n", "50"], ctx)).out)?.turns ?? []).filter((turn) => branch.has(turn.entry)).slice(0, OFFERED);
    if (found.length === 0) return false;
    const rows = new Map(found.map((turn) => {
      const paths = turn.written + turn.removed;
      const change = paths === 0 ? "no file" : `${paths} file${paths === 1 ? "" : "s"}`;
      return [`@${turn.n}  ${change}  ${turn.age}  ${inOneLine(turn.prompt).slice(0, 50)}`, turn];
    }));
    const choice = await ctx.ui.select("casrewind: go back to before a prompt, and change so many files", [NOW, ...rows.keys()]);
    const turn = rows.get(choice);
    if (turn) await back([String(turn.n)], ctx);
    return true;
  };

  pi.registerCommand("casrewind", {
    description: "Checkpoints of this project and its conversation: list, back N, restore REF, undo, save, diff, status",
    handler: async (args, ctx) => {
      await ctx.waitForIdle();
      const words = args.trim() ? args.trim().split(/\s+/) : [];
      const waiting = shared.waiting;
      if (words.length === 1 && words[0].toLowerCase() === "yes" && waiting?.session === ctx.sessionManager.getSessionId()) {
        shared.waiting = null;
        await back(waiting.words.slice(1), ctx);
        return;
      }
      if (CHANGES.includes(words[0])) shared.waiting = null;
      if (words[0] === "back") {
        await back(words.slice(1), ctx);
        return;
      }
      if (words.length === 0 && ctx.hasUI && (await choose(ctx))) return;
      const payload = { hook_event_name: "Command", ...place(ctx), prompt: `/casrewind ${args}`.trim() };
      const done = await run(["hook", "pi"], { payload, seconds: COMMAND_SECONDS, keep: true, cwd: ctx.cwd });
      say(ctx, parsed(done.out)?.reason ?? `casrewind: no answer (${done.code}); casrewind doctor pi says more`);
      count(ctx);
    },
  });
}
