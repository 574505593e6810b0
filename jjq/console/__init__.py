"""The console: jjq in a browser, served at / of the HTTP port.

    files       the fixed table of files that are served, with types, digests and compressed forms
    join        makes one script of the ES modules when the server starts, so that there is no build step
    static/     index.html and the ES modules:
        app.js       starts everything: navigation, routing, key dialog, banner
        early.js     the chosen theme, before anything is drawn
        screens.js   the table of screens; a new screen is a new line in it
        core/        API, live figures, routes, formats: no markup
        parts/       components that several screens use
        screens/     one file for each screen, and its own parts
        style/       CSS: `tokens` has every colour and distance
        vendor/      pinned files of others, never edited
    NOTICE      version, licence and SHA-256 of the vendored files; a test compares

What enters is nothing but the public REST interface and `GET /v1/live`. The table is read from the installed package
once, so no path of a request ever reaches the file system.

Invariants:
- No inline script or style, no cookie, no address with a key in it: the key is in memory and in session storage.
- Text of users goes into the page as text. `innerHTML` does not occur.
- All that is served has less than 60 KB compressed, without the SQL screen, which is loaded on demand.
"""
