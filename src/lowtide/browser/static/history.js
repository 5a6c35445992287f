// What the posts of an account tell together. Only what each told is kept, never its text, and only in this browser.

import { leakOf } from "./model.js";

export class PostHistory {
  /** @param model whose answers are kept; @param storage such as localStorage; without one, nothing outlives the page. */
  constructor(model, storage) {
    this.model = model;
    this.storage = storage;
    this.key = `lowtide.posts.${model.about.id}`;
    this.accounts = {};
    try {
      const kept = JSON.parse(storage?.getItem(this.key) ?? "{}");
      for (const [name, posts] of Object.entries(kept)) {
        if (Array.isArray(posts)) this.accounts[name] = posts.filter((post) => this._isSound(post));
      }
    } catch {
      this.storage = null; // a browser that keeps nothing, or somebody else's entry
    }
  }

  get isKept() {
    return Boolean(this.storage);
  }

  posts(account) {
    return Object.hasOwn(this.accounts, account) ? this.accounts[account] : [];
  }

  add(account, density) {
    this.accounts[account] = [...this.posts(account), { when: new Date().toISOString().slice(0, 10), tells: density }];
    this._keep();
  }

  forget(account) {
    delete this.accounts[account];
    this._keep();
  }

  /** What all posts of an account tell, with one more; as if posts were independent given the class. */
  total(account, more = null) {
    const sum = new Array(this.model.classes).fill(0);
    const all = this.posts(account).map((post) => post.tells);
    for (const tells of more ? [...all, more] : all) tells.forEach((value, s) => { sum[s] += value; });
    const belief = this.model.belief(sum);
    const density = belief.map((value, s) => Math.log(Math.max(value, 1e-300) / this.model.prior[s]));
    return { belief, density, leak: leakOf(density) };
  }

  _isSound(post) {
    return Array.isArray(post?.tells) && post.tells.length === this.model.classes && post.tells.every(Number.isFinite);
  }

  _keep() {
    try {
      this.storage?.setItem(this.key, JSON.stringify(this.accounts));
    } catch {
      this.storage = null; // full, or not allowed
    }
  }
}
