package load_test

import (
	"fmt"
	"strings"

	"faultline/workloads/load"
)

// A feed hands out the lines of a file. The attempt to send "second" fails, so it is handed out once more.
func Example() {
	file := strings.NewReader("first\nsecond\nthird\n")
	feed := load.NewFeed(load.NewLines("app.log", file, 1<<20), true)
	const producer = 1
	failed := false
	for line := feed.Take(producer); line != nil; line = feed.Take(producer) {
		fmt.Printf("%s\n", line.Value())
		if string(line.Value()) == "second" && !failed {
			failed = true
			feed.Return(line)
			continue
		}
		feed.Settle(line)
	}
	fmt.Println(feed.Taken(), "lines", feed.Err())
	// Output:
	// first
	// second
	// second
	// third
	// 3 lines <nil>
}
