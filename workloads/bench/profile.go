// Package bench measures how fast the system is on given hardware: a sweep over one setting, each point a simulated run that is driven as fast as
// it goes.
package bench

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"faultline/broker/record"
	"faultline/faults/quantity"
	"faultline/sim/disk"
	"faultline/sim/net"
	"faultline/sim/virtual"
)

//go:embed profiles/*.yaml
var profiles embed.FS

// Profile is what hardware costs. The files under profiles/ say where each figure comes from.
type Profile struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`
	CPU   struct {
		Cores   int                 `yaml:"cores"`
		Request quantity.Durations  `yaml:"request"` // per protocol request
		Send    quantity.Durations  `yaml:"send"`    // per record that a producer takes and encodes
		Record  quantity.Durations  `yaml:"record"`  // per record that a server looks at
		Receive quantity.Durations  `yaml:"receive"` // per record that a consumer decodes and hands over
		Batch   quantity.Durations  `yaml:"batch"`   // per batch that a consumer checks, beside its records and bytes
		Syscall quantity.Durations  `yaml:"syscall"` // per system call
		Copy    quantity.Bandwidths `yaml:"copy"`    // bytes copied
		Sum     quantity.Bandwidths `yaml:"sum"`     // bytes checksummed
		// Bytes compressed, and bytes that decompression brings forth, by codec.
		Compress   Codecs `yaml:"compress"`
		Decompress Codecs `yaml:"decompress"`
		// The baseline queue. Without it its frames and messages cost what the log's batches, requests and records do.
		Queue *QueueCosts `yaml:"queue"`
	} `yaml:"cpu"`
	Disk struct {
		Read  quantity.Bandwidths `yaml:"read"`
		Write quantity.Bandwidths `yaml:"write"`
		Seek  quantity.Durations  `yaml:"seek"`
		Flush quantity.Durations  `yaml:"flush"`
		Cache quantity.Sizes      `yaml:"cache"` // the page cache
		// Unsynced bytes at which write-back starts, and at which writers are held back.
		DirtyBackground quantity.Sizes `yaml:"dirty_background"`
		DirtyLimit      quantity.Sizes `yaml:"dirty_limit"`
		Readahead       quantity.Sizes `yaml:"readahead"`
	} `yaml:"disk"`
	Network struct {
		Latency   quantity.Durations  `yaml:"latency"`   // one way
		Bandwidth quantity.Bandwidths `yaml:"bandwidth"` // of each NIC, each way
		MTU       quantity.Sizes      `yaml:"mtu"`
		Packet    quantity.Durations  `yaml:"packet"` // what a NIC needs for a packet, however small
	} `yaml:"network"`

	source []byte
}

// Source is the profile's file, whose comments say where each figure comes from.
func (p *Profile) Source() []byte { return p.source }

// QueueCosts are what the baseline queue's steps cost: see machine.QueueWork.
type QueueCosts struct {
	Frame   quantity.Durations `yaml:"frame"`   // of messages, that a client writes
	Answer  quantity.Durations `yaml:"answer"`  // per frame of a client that is confirmed to it
	Arrive  quantity.Durations `yaml:"arrive"`  // a frame of messages that a client reads, or of acknowledgements that it writes
	Send    quantity.Durations `yaml:"send"`    // per message that a client puts into a frame
	Receive quantity.Durations `yaml:"receive"` // per message that a client takes out, hands over and acknowledges
	Serve   quantity.Durations `yaml:"serve"`   // a frame that a server reads
	Tell    quantity.Durations `yaml:"tell"`    // per frame of a client that a server confirms
	Push    quantity.Durations `yaml:"push"`    // a server's write of messages to a client
	Take    quantity.Durations `yaml:"take"`    // per message that a server takes in, and per queue that gets it
	Pass    quantity.Durations `yaml:"pass"`    // per message that a server gives to a consumer, packs, or has acknowledged
}

// each lists the costs by their names.
func (q *QueueCosts) each() []namedCost {
	return []namedCost{{"frame", q.Frame}, {"answer", q.Answer}, {"arrive", q.Arrive}, {"send", q.Send}, {"receive", q.Receive}, {"serve", q.Serve}, {"tell", q.Tell}, {"push", q.Push}, {"take", q.Take}, {"pass", q.Pass}}
}

type namedCost struct {
	name string
	of   quantity.Durations
}

// queue is what the baseline queue costs.
func (p *Profile) queue() virtual.QueueCosts {
	c := &p.CPU
	if q := c.Queue; q != nil {
		return virtual.QueueCosts{
			Frame: q.Frame.V().D(), Answer: q.Answer.V().D(), Arrive: q.Arrive.V().D(), Send: q.Send.V().D(), Receive: q.Receive.V().D(), Serve: q.Serve.V().D(), Tell: q.Tell.V().D(), Push: q.Push.V().D(), Take: q.Take.V().D(), Pass: q.Pass.V().D(),
		}
	}
	// A frame is made once as a batch is, and once as a request.
	request, record := c.Request.V().D(), c.Record.V().D()
	return virtual.QueueCosts{Frame: 2 * request, Answer: request, Arrive: request, Send: c.Send.V().D(), Receive: c.Receive.V().D(), Serve: request, Push: request, Take: record, Pass: record}
}

// Codecs are bandwidths of compression.
type Codecs struct {
	Gzip   quantity.Bandwidths `yaml:"gzip"`
	Snappy quantity.Bandwidths `yaml:"snappy"`
	LZ4    quantity.Bandwidths `yaml:"lz4"`
	Zstd   quantity.Bandwidths `yaml:"zstd"`
}

// numbered are the bandwidths by the codecs' numbers.
func (c *Codecs) numbered() [5]int64 {
	return [5]int64{record.Gzip: int64(c.Gzip.V()), record.Snappy: int64(c.Snappy.V()), record.LZ4: int64(c.LZ4.V()), record.Zstd: int64(c.Zstd.V())}
}

// Profiles lists the profiles that ship, sorted.
func Profiles() []string { return shipped(profiles, "profiles") }

// LoadProfile reads a profile that ships, or a user's file: a name with a slash or a dot in it.
func LoadProfile(name string) (*Profile, error) {
	if strings.ContainsAny(name, "./"+string(filepath.Separator)) {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
		return ParseProfile(name, data)
	}
	data, err := profiles.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no profile is named %q%s; these ship: %s. A file of your own is given by its path, like ./%s.yaml; calibrate writes one", name, quantity.DidYouMean(name, Profiles()), strings.Join(Profiles(), ", "), name)
	}
	return ParseProfile(name+".yaml", data)
}

// ParseProfile reads a profile and checks it. The file name is only for messages.
func ParseProfile(file string, data []byte) (*Profile, error) {
	p := &Profile{source: data}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(p); err != nil {
		return nil, fmt.Errorf("profile %s: %w", file, err)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("profile %s: %w", file, err)
	}
	return p, nil
}

// Validate says everything that is wrong with a profile. What it must have: a name, cores, bandwidths of copies, checksums, disk and network, and the costs of requests, records, system calls and
// flushes; what costs nothing is 0 (0ns).
func (p *Profile) Validate() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if p.Name == "" {
		say("name: none is given")
	}
	if p.CPU.Cores < 1 || p.CPU.Cores > 4096 {
		say("cpu.cores: found %d, allowed is 1 to 4096", p.CPU.Cores)
	}
	for _, f := range []struct {
		name string
		of   quantity.Bandwidths
	}{
		{"cpu.copy", p.CPU.Copy}, {"cpu.sum", p.CPU.Sum}, {"disk.read", p.Disk.Read}, {"disk.write", p.Disk.Write}, {"network.bandwidth", p.Network.Bandwidth},
	} {
		if err := f.of.Within("1KiB/s", ""); err != nil || f.of.Min != f.of.Max {
			say("%s: found %v, allowed is one bandwidth of 1KiB/s or more", f.name, f.of)
		}
	}
	for _, f := range []struct {
		name   string
		of     quantity.Durations
		ranged bool
	}{
		{"cpu.request", p.CPU.Request, false}, {"cpu.send", p.CPU.Send, false}, {"cpu.record", p.CPU.Record, false}, {"cpu.receive", p.CPU.Receive, false}, {"cpu.batch", p.CPU.Batch, false}, {"cpu.syscall", p.CPU.Syscall, false}, {"disk.seek", p.Disk.Seek, false}, {"disk.flush", p.Disk.Flush, false},
		{"network.packet", p.Network.Packet, false}, {"network.latency", p.Network.Latency, true},
	} {
		if err := f.of.Within("0s", "1m"); err != nil {
			say("%s: %w", f.name, err)
		} else if !f.ranged && f.of.Min != f.of.Max {
			say("%s: found %v, allowed is one duration", f.name, f.of)
		}
	}
	if p.CPU.Queue != nil {
		for _, f := range p.CPU.Queue.each() {
			if err := f.of.Within("0s", "1m"); err != nil {
				say("cpu.queue.%s: %w", f.name, err)
			} else if f.of.Min != f.of.Max {
				say("cpu.queue.%s: found %v, allowed is one duration", f.name, f.of)
			}
		}
	}
	for _, c := range []struct {
		name string
		of   *Codecs
	}{{"compress", &p.CPU.Compress}, {"decompress", &p.CPU.Decompress}} {
		for i, v := range c.of.numbered() {
			if v < 0 {
				say("cpu.%s.%v: found %d, allowed is a bandwidth of 0 (it costs nothing) or more", c.name, record.Codec(i), v)
			}
		}
	}
	for _, f := range []struct {
		name string
		of   quantity.Sizes
	}{
		{"disk.cache", p.Disk.Cache}, {"disk.dirty_background", p.Disk.DirtyBackground}, {"disk.dirty_limit", p.Disk.DirtyLimit}, {"disk.readahead", p.Disk.Readahead}, {"network.mtu", p.Network.MTU},
	} {
		if f.of.Min < 0 || f.of.Min != f.of.Max {
			say("%s: found %v, allowed is one size", f.name, f.of)
		}
	}
	if b, l := p.Disk.DirtyBackground.Min, p.Disk.DirtyLimit.Min; b > 0 && l > 0 && b > l {
		say("disk.dirty_background: found %v, allowed is disk.dirty_limit, %v, or less", b, l)
	}
	if m := p.Network.MTU.Min; m > 0 && m < 68 {
		say("network.mtu: found %v, allowed is 68B or more", m)
	}
	return errors.Join(wrong...)
}

// Hardware is the profile as the simulated computers take it.
func (p *Profile) Hardware() virtual.Config {
	return virtual.Config{
		CPU: virtual.CPU{
			Cores: p.CPU.Cores, Request: p.CPU.Request.V().D(), Send: p.CPU.Send.V().D(), Record: p.CPU.Record.V().D(), Receive: p.CPU.Receive.V().D(), Batch: p.CPU.Batch.V().D(), Syscall: p.CPU.Syscall.V().D(),
			Copy: int64(p.CPU.Copy.V()), Sum: int64(p.CPU.Sum.V()),
			Pack: p.CPU.Compress.numbered(), Inflate: p.CPU.Decompress.numbered(), Queue: p.queue(),
		},
		Disk: disk.Config{
			ReadBandwidth: int64(p.Disk.Read.V()), WriteBandwidth: int64(p.Disk.Write.V()), Seek: p.Disk.Seek.V().D(), Flush: p.Disk.Flush.V().D(),
			Cache: int64(p.Disk.Cache.V()), DirtyBackground: int64(p.Disk.DirtyBackground.V()), DirtyLimit: int64(p.Disk.DirtyLimit.V()), Readahead: int64(p.Disk.Readahead.V()),
		},
		Net: net.Config{
			Latency:   net.Distribution{Min: p.Network.Latency.Min.D(), Max: p.Network.Latency.Max.D()},
			Bandwidth: int64(p.Network.Bandwidth.V()), Receive: int64(p.Network.Bandwidth.V()), MTU: int(p.Network.MTU.V()), Packet: p.Network.Packet.V().D(), NoSlowStart: true, // connections last: their first round trips are no part of a curve
		},
	}
}
