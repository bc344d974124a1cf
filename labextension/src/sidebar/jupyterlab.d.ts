/** The tokens of JupyterLab that the panel uses. */

declare module "@jupyterlab/application" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const ILayoutRestorer: Dependency;
}

declare module "@jupyterlab/launcher" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const ILauncher: Dependency;
}

declare module "@jupyterlab/statusbar" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const IStatusBar: Dependency;
}

declare module "@jupyterlab/filebrowser" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const IDefaultFileBrowser: Dependency;
}

declare module "@jupyterlab/settingregistry" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const ISettingRegistry: Dependency;
}

declare module "@jupyterlab/translation" {
  type Dependency = NonNullable<import("@lumino/application").IPlugin<unknown, unknown>["optional"]>[number];
  export const ITranslator: Dependency;
}
