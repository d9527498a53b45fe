"use strict";

// Swagger UI shows JSON as JavaScript reads it, which rounds numbers of more than 53 bits, and an id may have 64;
// of several rows of JSON it says that they are none. Where that is not what came, it is told of a text.
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

// Whether it is the same text when JavaScript has read and written it.
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
  // A token is gone when the page is.
  persistAuthorization: false,
  // No badge of a validator elsewhere.
  validatorUrl: null,
  plugins: [asItCame, hiddenToken],
});
