package client_test

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/broker/wire"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// world has a machine "app" for the program under test and scripted brokers.
type world struct {
	t *testing.T
	w *sim.World
	c *virtual.Cluster
}

func newWorld(t *testing.T, seed uint64) *world {
	w := sim.New(sim.Config{Seed: seed})
	x := &world{t: t, w: w, c: virtual.New(w, virtual.Config{})}
	x.c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			w.Close()
		}
	})
	return x
}

// app runs the program under test to its end.
func (x *world) app(story func(m machine.Machine)) {
	x.t.Helper()
	done := false
	x.c.Add("app").Boot(func(m machine.Machine) error {
		story(m)
		done = true
		return nil
	})
	for end := time.Duration(0); !done && end < 10*time.Minute; {
		end += 100 * time.Millisecond
		x.w.At(end, func() {})
		if out := x.w.Run(end); out.Kind != sim.Deadline && !done {
			x.t.Fatal(out)
		}
	}
	require.True(x.t, done, "the program is not through")
}

// scripted is a broker that does what a test says.
type scripted struct {
	m        machine.Machine
	requests map[int16]int // answered or not, by key
	dials    int
	versions []kmsg.ApiVersionsResponseApiKey // nil: everything that kmsg knows
	ancient  bool                             // knows only version 0 of ApiVersions

	// answer handles a request: it returns the response, or nil for none, and what becomes of the connection.
	answer func(req kmsg.Request) (kmsg.Response, after)
	// raw replaces the encoded response.
	raw func(frame []byte) []byte
}

type after int

const (
	goOn after = iota
	hangUp
)

// broker starts a scripted broker on its own machine, port 9092.
func (x *world) broker(name string, s *scripted) *virtual.Computer {
	comp := x.c.Add(name)
	s.requests = map[int16]int{}
	comp.Boot(func(m machine.Machine) error {
		s.m = m
		l, err := m.Listen(9092)
		if err != nil {
			return err
		}
		for {
			nc, err := l.Accept()
			if err != nil {
				return err
			}
			s.dials++
			m.Go("conn", func() { s.serve(nc) })
		}
	})
	return comp
}

func (s *scripted) serve(nc net.Conn) {
	defer nc.Close()
	r := bufio.NewReader(nc)
	for {
		frame, err := wire.ReadFrame(r, nil, wire.MinRequest, 1<<24)
		if err != nil {
			return
		}
		h, rest, err := wire.ParseHeader(frame)
		if err != nil {
			return
		}
		req := kmsg.RequestForKey(h.Key)
		req.SetVersion(h.Version)
		s.requests[h.Key]++
		var resp kmsg.Response
		then := goOn
		if h.Key == 18 {
			resp = s.apiVersions(h.Version)
		} else {
			if err := wire.Decode(req, rest); err != nil {
				return
			}
			resp, then = s.answer(req)
		}
		if resp != nil {
			if h.Key != 18 {
				resp.SetVersion(h.Version)
			}
			out := wire.AppendResponse(nil, h.Correlation, resp)
			if s.raw != nil && h.Key != 18 {
				out = s.raw(out)
			}
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
		if then == hangUp {
			return
		}
	}
}

func (s *scripted) apiVersions(version int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	if s.ancient && version > 0 {
		resp.Version, resp.ErrorCode = 0, 35
		return resp // old brokers leave the list out
	}
	resp.ApiKeys = s.versions
	if s.versions == nil {
		for key := int16(0); key < 40; key++ {
			if req := kmsg.RequestForKey(key); req != nil {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, req.MaxVersion()
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
		}
	}
	return resp
}

// echoOffset answers ListOffsets with the timestamp that was asked for.
func echoOffset(req kmsg.Request) (kmsg.Response, after) {
	r := req.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	t := kmsg.NewListOffsetsResponseTopic()
	t.Topic = r.Topics[0].Topic
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.Offset = r.Topics[0].Partitions[0].Partition, r.Topics[0].Partitions[0].Timestamp
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return resp, goOn
}

func ask(ts int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = "t"
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = ts
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func told(resp kmsg.Response) int64 {
	return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
}

// calls is a tap that keeps everything.
type calls struct{ all []client.Call }

func (c *calls) Done(call client.Call) { c.all = append(c.all, call) }

func kind(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, client.ErrNotSent) && errors.Is(err, client.ErrUnknown):
		return "both"
	case errors.Is(err, client.ErrNotSent):
		return "not sent"
	case errors.Is(err, client.ErrUnknown):
		return "unknown"
	}
	return "neither: " + err.Error()
}
