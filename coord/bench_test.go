package coord_test

import (
	"fmt"
	"testing"
	"time"

	"faultline/coord"
	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// BenchmarkCalls is calls through the whole simulated system: client, network, server, log on the virtual disk.
func BenchmarkCalls(b *testing.B) {
	for _, clients := range []int{1, 10} {
		for name, call := range map[string]func(c *client.Client) error{
			"set": func(c *client.Client) error { _, err := c.Set("/", []byte("12345678"), -1); return err },
			"get": func(c *client.Client) error { _, _, err := c.Get("/", false); return err },
		} {
			b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
				w := sim.New(sim.Config{})
				defer w.Close()
				c := virtual.New(w, virtual.Config{})
				c.Add("zk").Boot(func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
				left, done := b.N, 0
				for i := range clients {
					c.Add(fmt.Sprint("c", i)).Boot(func(m machine.Machine) error {
						c := client.Connect(m, client.Config{Servers: []string{"zk:2181"}})
						for left > 0 {
							left--
							if err := call(c); err != nil {
								b.Error(err)
							}
						}
						done++
						return nil
					})
				}
				b.ReportAllocs()
				for done < clients && !b.Failed() {
					w.Run(w.Now() + time.Second)
				}
			})
		}
	}
}
