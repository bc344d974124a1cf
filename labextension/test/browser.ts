/** What a browser has and jsdom does not. */

Element.prototype.scrollIntoView = () => undefined;
