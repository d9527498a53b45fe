// Writes types in which an int64 is a number or, where a number cannot hold it, a bigint:
//   node generate-exact.mjs openapi.json plant-store-exact.ts
import { writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import openapiTS, { NUMBER, astToString } from "openapi-typescript";
import ts from "typescript";

const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);

const [document, types] = process.argv.slice(2);
const nodes = await openapiTS(pathToFileURL(document), {
  transform: (schema) =>
    schema.format === "int64" ? ts.factory.createUnionTypeNode([NUMBER, BIGINT]) : undefined,
});
await writeFile(types, astToString(nodes));
