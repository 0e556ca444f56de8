package coord_test

import (
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"faultline/coord"
	"faultline/sim/host"
)

// A server on the real computer; any ZooKeeper client can use it.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	m, _ := host.New(host.Options{Name: "here", Root: dir})
	defer m.Shutdown()
	var server *coord.Server
	m.Do("start", func() { server, _ = coord.Start(m, coord.Config{DataDir: "data"}) })

	c, _, _ := zk.Connect([]string{fmt.Sprintf("127.0.0.1:%d", server.Port())}, 4*time.Second, zk.WithLogInfo(false))
	path, err := c.Create("/queue/item-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	_, _ = c.Create("/queue", nil, 0, zk.WorldACL(zk.PermAll))
	path, err = c.Create("/queue/item-", []byte("work"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	c.Close()

	m.Do("stop", func() { fmt.Println(server.Stop()) })
	// Output:
	//  zk: node does not exist
	// /queue/item-0000000000 <nil>
	// <nil>
}
