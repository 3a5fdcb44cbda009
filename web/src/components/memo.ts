/** `memo`: a component that renders again only when its properties change. */

import { type ComponentType, type VNode, Component, h } from "preact";

function shallow<P extends object>(before: P, after: P): boolean {
  const names = Object.keys(after) as (keyof P)[];
  return names.length === Object.keys(before).length && names.every((name) => before[name] === after[name]);
}

export function memo<P extends object>(
  component: (properties: P) => VNode | null,
  same: (before: P, after: P) => boolean = shallow,
): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !same(this.props, next);
    }
    override render(properties: P): VNode {
      return h(component as ComponentType<P>, properties) as VNode;
    }
  };
}
