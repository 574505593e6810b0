// All screens. `nav` puts one into the menu; `under` marks the entry of the menu that it belongs to.
export const screens = [
  { path: "/", nav: "Overview", load: () => import("./screens/overview.js") },
  { path: "/queues", nav: "Queues", load: () => import("./screens/queues.js") },
  { path: "/queues/:queue", under: "Queues", load: () => import("./screens/queue.js") },
  { path: "/subscribers", nav: "Subscribers", load: () => import("./screens/subscribers.js") },
  { path: "/groups", nav: "Groups", load: () => import("./screens/groups.js") },
  { path: "/groups/:queue/:group", under: "Groups", load: () => import("./screens/group.js") },
  { path: "/groups/:queue/:group/tasks/:task", under: "Groups", load: () => import("./screens/task.js") },
  { path: "/cluster", nav: "Cluster", load: () => import("./screens/cluster.js") },
  { path: "/sql", nav: "SQL", load: () => import("./screens/sql.js") },
  { path: "/keys", nav: "Keys", load: () => import("./screens/keys.js") },
];
