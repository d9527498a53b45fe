"use strict";

// Swagger UI parses and prints JSON with JavaScript, which rounds numbers of more than 53 bits, and an id may have 64.
// Several rows of JSON (NDJSON) it reports as invalid. In both cases, this shows the answer as plain text.
const asItCame = {
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

// Swagger UI shows a bearer token as plain text while it is typed. This makes its field a password field.
const hiddenToken = {
  wrapComponents: {
    HttpAuth: (HttpAuth, { React, getComponent }) => {
      const PasswordInput = (properties) =>
        React.createElement(getComponent("Input"), { ...properties, type: "password", autoComplete: "off" });
      return (properties) => {
        const replaced = (name, ...rest) =>
          name === "Input" ? PasswordInput : properties.getComponent(name, ...rest);
        return React.createElement(HttpAuth, { ...properties, getComponent: replaced });
      };
    },
  },
};

SwaggerUIBundle({
  // Relative to the page: a proxy may have given it another path.
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  // Closing the page discards the token.
  persistAuthorization: false,
  // No badge from an external validator.
  validatorUrl: null,
  plugins: [asItCame, hiddenToken],
});
