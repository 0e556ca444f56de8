// Package bench measures how fast the system is on given hardware: a sweep over one setting, each point a simulated run that is driven as fast as
// it goes.
package bench

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"faultline/broker/record"
	"faultline/faults/quantity"
	"faultline/faults/strict"
	"faultline/sim/disk"
	"faultline/sim/net"
	"faultline/sim/virtual"
)

//go:embed profiles/*.yaml
var profiles embed.FS

// Profile is what hardware costs. The files under profiles/ say where each figure comes from.
type Profile struct {
	Name  string `yaml:"name" need:"true"`
	About string `yaml:"about"`
	CPU   struct {
		Cores   quantity.Counts     `yaml:"cores" need:"true" min:"1" max:"4096"`
		Request quantity.Durations  `yaml:"request" need:"true" min:"0s" max:"1m"` // per protocol message that a client writes or reads, and per request that a producer makes of batches
		Serve   quantity.Durations  `yaml:"serve" min:"0s" max:"1m"`               // per protocol request that a server handles. Default: as request
		Send    quantity.Durations  `yaml:"send" min:"0s" max:"1m"`                // per record that a producer takes and encodes
		Record  quantity.Durations  `yaml:"record" need:"true" min:"0s" max:"1m"`  // per record that a server looks at
		Receive quantity.Durations  `yaml:"receive" min:"0s" max:"1m"`             // per record that a consumer decodes and hands over
		Batch   quantity.Durations  `yaml:"batch" min:"0s" max:"1m"`               // per batch that a consumer checks, beside its records and bytes
		Syscall quantity.Durations  `yaml:"syscall" need:"true" min:"0s" max:"1m"` // per system call
		Copy    quantity.Bandwidths `yaml:"copy" need:"true" min:"1KiB/s"`         // bytes copied
		Move    quantity.Bandwidths `yaml:"move" min:"1KiB/s"`                     // bytes written to a connection, or read from one. Default: as copy
		Store   quantity.Bandwidths `yaml:"store" min:"1KiB/s"`                    // bytes written to files. Default: as copy
		Flush   quantity.Bandwidths `yaml:"flush" min:"0B/s"`                      // bytes that a sync takes to the disk, by its CPU time; 0B/s: they cost none
		Sum     quantity.Bandwidths `yaml:"sum" need:"true" min:"1KiB/s"`          // bytes checksummed
		// What else has a core while a task works. Without it nothing has.
		Interrupt *Interrupt `yaml:"interrupt"`
		// Bytes compressed, and bytes that decompression brings forth, by codec.
		Compress   Codecs `yaml:"compress"`
		Decompress Codecs `yaml:"decompress"`
		// The baseline queue. Without it its frames and messages cost what the log's batches, requests and records do.
		Queue *QueueCosts `yaml:"queue"`
	} `yaml:"cpu" need:"true"`
	Disk struct {
		Read  quantity.Bandwidths `yaml:"read" need:"true" min:"1KiB/s"`
		Write quantity.Bandwidths `yaml:"write" need:"true" min:"1KiB/s"`
		Seek  quantity.Durations  `yaml:"seek" min:"0s" max:"1m"`
		Flush quantity.Durations  `yaml:"flush" need:"true" min:"0s" max:"1m"`
		Cache quantity.Sizes      `yaml:"cache" min:"0B" max:"unlimited"` // the page cache
		// Unsynced bytes at which write-back starts, and at which writers are held back.
		DirtyBackground quantity.Sizes `yaml:"dirty_background" min:"0B" max:"unlimited"`
		DirtyLimit      quantity.Sizes `yaml:"dirty_limit" min:"0B" max:"unlimited"`
		Readahead       quantity.Sizes `yaml:"readahead" min:"0B"`
	} `yaml:"disk" need:"true"`
	Network struct {
		Latency   quantity.Durations  `yaml:"latency" need:"true" min:"0s" max:"1m"` // one way
		Bandwidth quantity.Bandwidths `yaml:"bandwidth" need:"true" min:"1KiB/s"`    // of each NIC, each way
		MTU       quantity.Sizes      `yaml:"mtu" min:"0B" max:"1GiB"`
		Packet    quantity.Durations  `yaml:"packet" min:"0s" max:"1m"` // what a NIC needs for a packet, however small
	} `yaml:"network" need:"true"`

	source []byte
}

// Source is the profile's file, whose comments say where each figure comes from.
func (p *Profile) Source() []byte { return p.source }

// Interrupt is what else has a core now and then: see virtual.Interrupts.
type Interrupt struct {
	Every quantity.Durations `yaml:"every" need:"true" min:"1us" max:"1h"` // work between two, on average
	Takes quantity.Durations `yaml:"takes" need:"true" min:"0s" max:"1m"`  // how long each holds work up
}

// interrupts are those of the profile.
func (p *Profile) interrupts() virtual.Interrupts {
	i := p.CPU.Interrupt
	if i == nil {
		return virtual.Interrupts{}
	}
	return virtual.Interrupts{Every: i.Every.V().D(), Takes: i.Takes.V().D()}
}

// QueueCosts are what the baseline queue's steps cost: see machine.QueueWork.
type QueueCosts struct {
	Frame   quantity.Durations `yaml:"frame" min:"0s" max:"1m"`   // of messages, that a client writes
	Answer  quantity.Durations `yaml:"answer" min:"0s" max:"1m"`  // per frame of a client that is confirmed to it
	Arrive  quantity.Durations `yaml:"arrive" min:"0s" max:"1m"`  // a frame of messages that a client reads, or of acknowledgements that it writes
	Send    quantity.Durations `yaml:"send" min:"0s" max:"1m"`    // per message that a client puts into a frame
	Receive quantity.Durations `yaml:"receive" min:"0s" max:"1m"` // per message that a client takes out, hands over and acknowledges
	Serve   quantity.Durations `yaml:"serve" min:"0s" max:"1m"`   // a frame that a server reads
	Tell    quantity.Durations `yaml:"tell" min:"0s" max:"1m"`    // per frame of a client that a server confirms
	Push    quantity.Durations `yaml:"push" min:"0s" max:"1m"`    // a server's write of messages to a client
	Take    quantity.Durations `yaml:"take" min:"0s" max:"1m"`    // per message that a server takes in, and per queue that gets it
	Pass    quantity.Durations `yaml:"pass" min:"0s" max:"1m"`    // per message that a server gives to a consumer, packs, or has acknowledged
}

// orElse is a figure, or the one that it is like where it is not given.
func orElse[T quantity.Value[T]](figure, like quantity.Range[T]) T {
	if figure.Given() {
		return figure.V()
	}
	return like.V()
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
	Gzip   quantity.Bandwidths `yaml:"gzip" min:"0B/s"`
	Snappy quantity.Bandwidths `yaml:"snappy" min:"0B/s"`
	LZ4    quantity.Bandwidths `yaml:"lz4" min:"0B/s"`
	Zstd   quantity.Bandwidths `yaml:"zstd" min:"0B/s"`
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

// ParseProfile reads a profile and checks it. It must have what a machine cannot be without; what else is not given costs nothing. The file name is only for messages.
func ParseProfile(file string, data []byte) (*Profile, error) {
	p := &Profile{source: data}
	doc, problems := strict.Decode(file, data, p)
	p.About = strings.Join(strings.Fields(p.About), " ")
	if len(problems) == 0 {
		problems = p.problems(doc)
	}
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("profile %w", err)
	}
	return p, nil
}

// problems are those that no single field shows. Only the latency of a network is drawn, packet by packet: everything else is one figure.
func (p *Profile) problems(doc *strict.Doc) (found strict.Problems) {
	say := func(path, format string, args ...any) { found = append(found, doc.Problem(path, format, args...)) }
	ranges(reflect.ValueOf(p).Elem(), "", func(path string, value any) {
		if path != "network.latency" {
			say(path, "found %v, allowed is one value", value)
		}
	})
	if b, l := p.Disk.DirtyBackground.Min, p.Disk.DirtyLimit.Min; b > 0 && l > 0 && b > l {
		say("disk.dirty_background", "found %v, allowed is disk.dirty_limit, %v, or less", b, l)
	}
	if m := p.Network.MTU.Min; m > 0 && m < 68 {
		say("network.mtu", "found %v, allowed is 68B or more", m)
	}
	return found
}

// ranges tells of every field that is no single value.
func ranges(v reflect.Value, path string, tell func(path string, value any)) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if name == "" || f.Kind() != reflect.Struct {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		if r, ok := f.Interface().(interface{ Fixed() bool }); !ok {
			ranges(f, at, tell)
		} else if !r.Fixed() {
			tell(at, r)
		}
	}
}

// Hardware is the profile as the simulated computers take it.
func (p *Profile) Hardware() virtual.Config {
	return virtual.Config{
		CPU: virtual.CPU{
			Cores: int(p.CPU.Cores.V()), Request: p.CPU.Request.V().D(), Serve: orElse(p.CPU.Serve, p.CPU.Request).D(), Send: p.CPU.Send.V().D(), Record: p.CPU.Record.V().D(), Receive: p.CPU.Receive.V().D(), Batch: p.CPU.Batch.V().D(), Syscall: p.CPU.Syscall.V().D(),
			Copy: int64(p.CPU.Copy.V()), Move: int64(orElse(p.CPU.Move, p.CPU.Copy)), Store: int64(orElse(p.CPU.Store, p.CPU.Copy)), Flush: int64(p.CPU.Flush.V()), Sum: int64(p.CPU.Sum.V()),
			Pack: p.CPU.Compress.numbered(), Inflate: p.CPU.Decompress.numbered(), Queue: p.queue(), Interrupts: p.interrupts(),
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
