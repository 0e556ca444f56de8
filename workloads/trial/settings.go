package trial

import (
	"faultline/sim/disk"
	"faultline/sim/net"
	"faultline/sim/virtual"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

var shapes = map[string]net.Kind{"uniform": net.Uniform, "heavy-tail": net.HeavyTail, "constant": net.Constant}

// hardware is the undisturbed network and disk of a drawn scenario.
func hardware(s *scenario.Scenario) virtual.Config {
	return virtual.Config{
		Net: net.Config{
			Latency:   net.Distribution{Kind: shapes[s.Network.Shape.V()], Min: s.Network.Latency.Min.D(), Max: max(s.Network.Latency.Max.D(), 1)},
			Bandwidth: int64(s.Network.Bandwidth.V()),
		},
		Disk: disk.Config{
			ReadBandwidth: int64(s.Disk.Bandwidth.V()), WriteBandwidth: int64(s.Disk.Bandwidth.V()),
			Seek: s.Disk.Seek.V().D(), Flush: s.Disk.Flush.V().D(), Cache: int64(s.Disk.Cache.V()), Capacity: deploy.Unlimited(int64(s.Disk.Space.V()), 0),
		},
	}
}
