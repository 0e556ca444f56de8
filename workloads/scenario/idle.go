package scenario

import (
	"reflect"
	"slices"

	"faultline/faults/strict"
)

// Options of a group that say something to one protocol only have it in their tag "only". Where they do nothing they are refused: whoever wrote them expects something of them.

// idle reports options that no seed can make anything of.
func (c *checker) idle(path string, g *Group) {
	if len(g.Protocol.Options) == 0 {
		return // reported for itself
	}
	fresh := freshGroup()
	g.each(func(name, only string, value, initial reflect.Value) {
		if slices.Contains(g.Protocol.Options, only) || !c.doc.Given(path+"."+name) && reflect.DeepEqual(value.Interface(), initial.Interface()) {
			return
		}
		c.wrong(path+"."+name, "found %v in a group of protocol %v, where it does nothing; allowed is to leave it out, or protocol: %s", value.Interface(), g.Protocol, only)
	}, &fresh)
	if slices.Contains(g.Static.Options, "yes") && !slices.Contains(g.Clients.Options, "current") && slices.Contains(g.Protocol.Options, "coordinator") {
		c.wrong(path+".static", "found %v with clients %v, who cannot be static; allowed is no, or clients: current", g.Static, g.Clients)
	}
}

// forgetIdle gives the options of a drawn group that do nothing in it their defaults: another seed, which drew another protocol or other clients, makes something of them.
func (g *Group) forgetIdle() {
	fresh := freshGroup()
	g.each(func(_, only string, value, initial reflect.Value) {
		if g.Protocol.V() != only {
			value.Set(initial)
		}
	}, &fresh)
	if g.Clients.V() == "old" {
		g.Static = fresh.Static
	}
}

func freshGroup() (g Group) {
	strict.Defaults(&g)
	return g
}

// each goes through the options that say something to one protocol only, here and in another group.
func (g *Group) each(do func(name, only string, value, other reflect.Value), other *Group) {
	v, o := reflect.ValueOf(g).Elem(), reflect.ValueOf(other).Elem()
	for i := range v.NumField() {
		if tags := v.Type().Field(i).Tag; tags.Get("only") != "" {
			do(tags.Get("yaml"), tags.Get("only"), v.Field(i), o.Field(i))
		}
	}
}
