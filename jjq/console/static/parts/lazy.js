// A component that is loaded when it is first shown. `load` imports a module, `name` is one of its exports.
import { html } from "../vendor/preact.js";
import { useLoad } from "../core/load.js";
import { Failure } from "./base.js";

export const lazy = (load, name) =>
  function Lazy(props) {
    const { data, error, reload } = useLoad(async () => ({ Shown: (await load())[name] }), []);
    if (error) return html`<${Failure} error=${error} retry=${reload} />`;
    return data ? html`<${data.Shown} ...${props} />` : null;
  };
