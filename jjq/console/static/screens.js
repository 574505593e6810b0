// All screens. `nav` puts one into the menu; `under` marks the entry of the menu that it belongs to.
import { html } from "./vendor/preact.js";
import { useLoad } from "./core/load.js";
import { Failure, Loading } from "./parts/base.js";
import { Cluster } from "./screens/cluster.js";
import { Group } from "./screens/group.js";
import { Groups } from "./screens/groups.js";
import { Keys } from "./screens/keys.js";
import { Overview } from "./screens/overview.js";
import { Queue } from "./screens/queue.js";
import { Queues } from "./screens/queues.js";
import { Subscribers } from "./screens/subscribers.js";
import { Task } from "./screens/task.js";

// Nobody needs the editor and its results before they are asked for.
function SqlOnDemand(props) {
  const { data, error, reload } = useLoad(() => import("./screens/sql.js"), []);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  return data ? html`<${data.Sql} ...${props} />` : html`<${Loading} />`;
}

export const screens = [
  { path: "/", nav: "Overview", view: Overview },
  { path: "/queues", nav: "Queues", view: Queues },
  { path: "/queues/:queue", under: "Queues", view: Queue },
  { path: "/subscribers", nav: "Subscribers", view: Subscribers },
  { path: "/groups", nav: "Groups", view: Groups },
  { path: "/groups/:queue/:group", under: "Groups", view: Group },
  { path: "/groups/:queue/:group/tasks/:task", under: "Groups", view: Task },
  { path: "/cluster", nav: "Cluster", view: Cluster },
  { path: "/sql", nav: "SQL", view: SqlOnDemand },
  { path: "/keys", nav: "Keys", view: Keys },
];
