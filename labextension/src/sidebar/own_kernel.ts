/** A kernel of the panel's own, for a page without a notebook: started when it is needed, never before. */

import type { KernelSpec, ServiceManager, Session } from "@jupyterlab/services";

import type { KeyValueStorage } from "../composer/composer_deps";
import { randomName } from "../page";
import { RequestError } from "../transport/rpc";

/** Marks our sessions among the server's. */
const SESSION_TYPE = "cellwright";
/** Under this a tab remembers its session: a reload finds it again. */
const SESSION_KEY = "cellwright:own-kernel";

export class OwnKernel {
  private session: Session.ISessionConnection | null = null;
  private starting: Promise<Session.ISessionConnection> | null = null;

  /** `changed` is called when there is another kernel, or none any more. `memory` is the tab's. */
  constructor(
    private readonly services: ServiceManager.IManager,
    private readonly memory: KeyValueStorage & { removeItem(key: string): void },
    private readonly changed: () => void,
  ) {}

  /** The session, where one is there. */
  get current(): Session.ISessionConnection | null {
    return this.session;
  }

  /** The folder that its kernel works in, as the file browser names it. */
  get folder(): string {
    return folderOf(this.session?.path ?? "");
  }

  /** Starts it in `folder`, or takes the one that an earlier page has left there. Rejects with RequestError. */
  async start(folder: string): Promise<void> {
    if (this.session) return;
    this.starting ??= this.startOrReuse(folder);
    try {
      this.adopt(await this.starting);
    } finally {
      this.starting = null;
    }
  }

  /** Finds the one that this tab had before it was loaded again. */
  async restore(): Promise<void> {
    const id = this.memory.getItem(SESSION_KEY);
    if (!id || this.session) return;
    const { sessions } = this.services;
    await sessions.refreshRunning();
    const model = [...sessions.running()].find((running) => running.id === id);
    if (model && !this.current) this.adopt(sessions.connectTo({ model }));
    else if (!model) this.memory.removeItem(SESSION_KEY);
  }

  async shutdown(): Promise<void> {
    const { session } = this;
    this.session = null;
    this.memory.removeItem(SESSION_KEY);
    this.changed();
    await session?.shutdown();
  }

  private async startOrReuse(folder: string): Promise<Session.ISessionConnection> {
    const { sessions, kernelspecs } = this.services;
    await kernelspecs.ready;
    const name = pythonSpec(kernelspecs.specs);
    if (!name) throw new RequestError("no_python", "This server has no Python kernel for Claude to work in.");
    await sessions.refreshRunning();
    const left = [...sessions.running()].find((model) => isUnused(model, folder));
    if (left) return sessions.connectTo({ model: left });
    return sessions.startNew({ path: joinPath(folder, `claude-${randomName().slice(0, 8)}`), name: "Claude", type: SESSION_TYPE, kernel: { name } });
  }

  private adopt(session: Session.ISessionConnection): void {
    if (this.session === session) return;
    this.session = session;
    this.memory.setItem(SESSION_KEY, session.id);
    session.disposed.connect(() => {
      if (this.session !== session) return;
      this.session = null;
      this.changed();
    });
    session.kernelChanged.connect(() => { this.changed(); });
    this.changed();
  }
}

/** One of ours in `folder` that no page is connected to: its conversation goes on. */
function isUnused({ type, path, kernel }: Session.IModel, folder: string): boolean {
  return type === SESSION_TYPE && folderOf(path) === folder && kernel?.connections === 0;
}

/** The server's default where that is Python, else the first that is. */
function pythonSpec(specs: KernelSpec.ISpecModels | null): string | undefined {
  const isPython = (name: string): boolean => specs?.kernelspecs[name]?.language.toLowerCase() === "python";
  return [specs?.default ?? "", ...Object.keys(specs?.kernelspecs ?? {})].find(isPython);
}

function folderOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

function joinPath(folder: string, name: string): string {
  return folder ? `${folder}/${name}` : name;
}
