"use strict";

// The page at `/` keeps its token here, for as long as the tab is open.
const STORED_TOKEN = "plant-store-token";
const token = sessionStorage.getItem(STORED_TOKEN);

// The back button may bring this page back as it was, with a token that has been given up meanwhile.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

// The name of the security scheme in openapi.json.
const SCHEME = "bearerAuth";

// Swagger UI parses and prints JSON with JavaScript, which rounds numbers of more than 53 bits, and an id may have 64.
// Several rows of JSON (NDJSON) it reports as invalid. In both cases, this shows the answer as plain text.
const exactAnswers = {
  wrapComponents: {
    responseBody: (ResponseBody, { React }) => (properties) => {
      const { content, contentType } = properties;
      const wouldChange = /json/i.test(contentType) && !isKept(content);
      const shown = wouldChange ? { ...properties, contentType: "text" } : properties;
      return React.createElement(ResponseBody, shown);
    },
  },
};

// Whether the text survives parsing and printing by JavaScript unchanged.
function isKept(json) {
  try {
    return JSON.stringify(JSON.parse(json)) === json;
  } catch {
    return false;
  }
}

// Swagger UI shows the token as plain text while it is typed, and in the command for curl.
const hiddenToken = {
  wrapComponents: {
    authorizationPopup: (_Popup, { React: { createElement: h }, preauthorizeApiKey, authActions, authSelectors }) => () => {
      const close = () => authActions.showDefinitions(false);
      const signIn = (event) => {
        event.preventDefault();
        preauthorizeApiKey(SCHEME, event.target.elements.token.value.trim());
        close();
      };
      const signOut = () => {
        authActions.logout([SCHEME]);
        sessionStorage.removeItem(STORED_TOKEN);
        close();
      };
      const field = [
        h("label", { htmlFor: "token" }, "Token"),
        h("input", { id: "token", type: "password", autoComplete: "off", required: true, autoFocus: true }),
      ];
      const isSignedIn = authSelectors.authorized().has(SCHEME);
      return h("dialog", { ref: open, "aria-labelledby": "sign-in", onClose: close },
        h("form", { onSubmit: signIn },
          h("h2", { id: "sign-in" }, isSignedIn ? "Signed in" : "Sign in"),
          isSignedIn ? h("p", null, "Requests of this page carry your token.") : h("div", null, ...field),
          h("div", { className: "buttons" },
            isSignedIn
              ? h("button", { type: "button", onClick: signOut }, "Sign out")
              : h("button", { className: "primary" }, "Sign in"),
            h("button", { type: "button", onClick: close }, "Close"))));
    },
    curl: (Curl, { React }) => (properties) => {
      const request = properties.request.update("headers", (headers) =>
        headers?.has("Authorization") ? headers.set("Authorization", "Bearer TOKEN") : headers);
      return React.createElement(Curl, { ...properties, request });
    },
  },
};

function open(dialog) {
  if (dialog && !dialog.open) dialog.showModal();
}

// Replaces Swagger UI's introduction, its sign-in buttons and its links inside buttons.
const ownViews = {
  wrapComponents: {
    InfoContainer: (_Info, { React: { createElement: h }, getComponent, specSelectors }) => () =>
      h("section", { className: "info", "aria-label": "Introduction" },
        h("h2", null, `API ${specSelectors.info().get("version")}`),
        h("p", { className: "introduction" },
          "Open an operation and choose “Try it out” to send it to this server, with the token of ",
          h("a", { href: "./" }, "the page for people"),
          " or with one that “plantd token create” makes. Programs read the same in ",
          h("a", { href: "openapi.json" }, "openapi.json"), "."),
        h(getComponent("Markdown", true), { source: specSelectors.info().get("description") })),
    authorizeBtn: (_Button, { React: { createElement: h } }) => ({ isAuthorized, showPopup, onClick, getComponent }) =>
      h("div", { className: "auth-wrapper" },
        h("button", { className: isAuthorized ? "" : "primary", onClick }, isAuthorized ? "Signed in" : "Sign in"),
        showPopup && h(getComponent("authorizationPopup", true))),
    // One button signs in for all operations.
    authorizeOperationBtn: () => () => null,
    // A link within a button confuses screen readers; the button opens what the link leads to.
    DeepLink: (_Link, { React }) => ({ text }) => React.createElement("span", null, text),
  },
};

const ui = SwaggerUIBundle({
  // Relative to the page: a proxy may have given it another path.
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  // Closing the page discards the token.
  persistAuthorization: false,
  // Swagger UI highlights syntax in colors for a dark background only.
  syntaxHighlight: false,
  // No badge from an external validator.
  validatorUrl: null,
  plugins: [exactAnswers, hiddenToken, ownViews],
  onComplete: () => token && ui.preauthorizeApiKey(SCHEME, token),
});
