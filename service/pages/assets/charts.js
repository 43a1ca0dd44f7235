/**
 * Charts of the pages: SVG and HTML of our own, without a library. Colours are custom properties of charts.css.
 */

export { BarChart, bars, intervalMark } from "./charts/bars.js";
export { ConfusionTable } from "./charts/confusion.js";
export { dataTable, Frame, numbersBy, scrolled, tableOf } from "./charts/frame.js";
export { LineChart } from "./charts/line.js";
export { ReliabilityChart } from "./charts/reliability.js";
export { count, number, rowsText } from "./charts/scale.js";
export { sparkline } from "./charts/spark.js";
export { Recording } from "./charts/thin.js";
