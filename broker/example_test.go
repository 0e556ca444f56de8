package broker_test

import (
	"fmt"
	"os"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/coord"
	"faultline/sim/host"
)

// A coordination service and a broker on the real machine, in one program.
func Example() {
	dir, _ := os.MkdirTemp("", "broker")
	defer os.RemoveAll(dir)
	m, err := host.New(host.Options{Root: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Shutdown()

	zk, err := coord.Start(m, coord.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := broker.Start(m, broker.Config{ID: 1, Port: -1, Coord: []string{fmt.Sprintf("localhost:%d", zk.Port())}})
	if err != nil {
		fmt.Println(err)
		return
	}

	cluster := client.NewCluster(m, []string{b.Addr()}, client.Config{})
	fmt.Println("create:", cluster.CreateTopic("clicks", 2, 1, client.Setting{Name: "retention.ms", Value: "3600000"}))
	topic, err := cluster.Topic("clicks")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range topic.Partitions {
		end, _, err := cluster.Offset("clicks", p.ID, client.Latest)
		fmt.Printf("partition %d is at broker %d and ends at offset %d, %v\n", p.ID, p.Leader, end, err)
	}
	cluster.Close()
	fmt.Println("stop:", b.Stop())
	// Output:
	// create: <nil>
	// partition 0 is at broker 1 and ends at offset 0, <nil>
	// partition 1 is at broker 1 and ends at offset 0, <nil>
	// stop: <nil>
}
