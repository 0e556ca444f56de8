package record_test

import (
	"fmt"

	"faultline/broker/record"
)

// A producer builds a batch, a broker checks it and gives it its place, a consumer walks over its records.
func Example() {
	var b record.Builder
	b.Reset(record.LZ4)
	b.Add(1_300_000_000_000, []byte("10.0.0.1"), []byte("/index"), nil)
	b.Add(1_300_000_000_250, nil, []byte("/about"), []record.RecordHeader{{Key: []byte("agent"), Value: []byte("curl")}})
	bytes, err := b.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}

	batch, _, _ := record.Next(bytes)
	var v record.Validator
	fmt.Println("valid:", v.Validate(&batch) == nil)
	batch.Place(4000, 1) // in place: bytes has it too

	var it record.Iterator
	for it.Reset(batch); it.Next(); {
		r := &it.Record
		fmt.Printf("%d at %d: %q %q\n", r.Offset, r.Timestamp, r.Key, r.Value)
		for h := range r.Headers {
			fmt.Printf("  %s=%s\n", h.Key, h.Value)
		}
	}
	fmt.Println(it.Err())

	bytes[len(bytes)-1] ^= 1
	batch, _, _ = record.Next(bytes)
	fmt.Println("valid:", batch.Check() == nil)
	// Output:
	// valid: true
	// 4000 at 1300000000000: "10.0.0.1" "/index"
	// 4001 at 1300000000250: "" "/about"
	//   agent=curl
	// <nil>
	// valid: false
}
