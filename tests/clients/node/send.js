// Submits one message with nodemailer: node send.js HOST PORT KIND [USER PASSWORD]; as a user only inside TLS.
// Prints the reply to the end of the data.
"use strict";
const nodemailer = require("nodemailer");

const [host, port, kind, user, pass] = process.argv.slice(2);
const login = user ? { requireTLS: true, tls: { rejectUnauthorized: false }, auth: { user, pass } } : { ignoreTLS: true };
const mail = { from: '"Shöp" <app@shop.test>', to: "ann@good.test", cc: "Bøb <bob@good.test>", bcc: "carl@good.test" };
const kinds = {
  text: { ...mail, subject: "größe", text: "first\n.\n..two\n.three\n\ngröße €\nlast" },
  html: {
    ...mail,
    subject: "with attachment",
    text: "plain",
    html: "<p>größe</p>",
    attachments: [{ filename: "octets.bin", content: Buffer.from(Array.from({ length: 4096 }, (_, at) => at % 256)) }],
  },
  user: { from: "app@shop.test", to: "ann@dest.test", subject: "x", text: "first\n..two\nlast" },
  utf8: { ...mail, to: "jörg@good.test", subject: "x", text: "x" },
  dsn: { ...mail, subject: "x", text: "x", dsn: { id: "order-1", return: "headers", notify: ["failure", "delay"], recipient: "ann@good.test" } },
};

nodemailer
  .createTransport({ host, port: Number(port), ...login })
  .sendMail(kinds[kind])
  .then((info) => console.log(info.response))
  .catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
