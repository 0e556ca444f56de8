package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// served is a cluster of one that people would start with serve; stop ends it as Ctrl-C does.
func served(t *testing.T, f serveFlags) (broker, coordination string, stop func()) {
	t.Helper()
	var asked atomic.Bool
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := f.serve(w, asked.Load)
		w.CloseWithError(io.EOF)
		ended <- err
	}()
	lines := bufio.NewScanner(r)
	for broker == "" && lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "coordination service on "); ok {
			coordination = at
		}
		if at, ok := strings.CutPrefix(lines.Text(), fmt.Sprintf("broker %d on ", f.id)); ok {
			broker = at
		}
	}
	go io.Copy(io.Discard, r)
	if broker == "" {
		t.Fatal("no broker was started: ", <-ended)
	}
	return broker, coordination, func() {
		t.Helper()
		asked.Store(true)
		require.NoError(t, <-ended)
	}
}

// Two that write into one folder would lose what either of them keeps.
func TestFolderIsServedFromOnce(t *testing.T) {
	f := serveFlags{dir: t.TempDir(), listen: "127.0.0.1", id: 1, partitions: 1, replicas: 1, flush: time.Millisecond, retention: -1}
	_, coordination, stop := served(t, f)
	again := f
	require.ErrorContains(t, again.serve(io.Discard, func() bool { return true }), "another faultline serves from "+f.dir)
	again.coord = []string{coordination}
	require.ErrorContains(t, again.serve(io.Discard, func() bool { return true }), "another faultline serves from "+f.dir)
	stop()
	_, _, stop = served(t, f)
	stop()
}

// Who waits for something is told for what.
func TestBrokerThatCannotRegisterSaysWhy(t *testing.T) {
	f := serveFlags{dir: t.TempDir(), listen: "127.0.0.1", id: 1, partitions: 1, replicas: 1, flush: time.Millisecond, retention: -1}
	_, coordination, stop := served(t, f)
	defer stop()
	twin := f
	twin.dir, twin.coord = t.TempDir(), []string{coordination}
	r, w := io.Pipe()
	var asked atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- twin.serve(w, asked.Load) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "broker 1 is not up yet, coordination service "+coordination+": broker id 1 is registered by")
	go io.Copy(io.Discard, r)
	asked.Store(true)
	require.NoError(t, <-ended)
}

func TestServeForRealClientsAndAgainAfterAStop(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := serveFlags{dir: filepath.Join(dir, "one"), listen: "127.0.0.1", id: 1, partitions: 1, replicas: 1, autoCreate: true, flush: time.Millisecond, retention: -1}
	client := func(broker string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err)
		t.Cleanup(cl.Close)
		return cl
	}
	for n := 1; n <= 2; n++ {
		broker, coordination, stop := served(t, f)
		second := f
		second.dir, second.id, second.coord = filepath.Join(dir, "two"), 2, []string{coordination}
		_, _, stopSecond := served(t, second)
		cl := client(broker)
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(fmt.Sprint(n))}).FirstErr())
		var got []string
		for len(got) < n {
			fetches := cl.PollFetches(ctx)
			require.NoError(t, ctx.Err())
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		require.Equal(t, []string{"1", "2"}[:n], got)
		cl.Close()
		stopSecond()
		stop()
		require.FileExists(t, filepath.Join(f.dir, "broker", "clean-shutdown"))
	}
}
