package consumer

// Walker does with fetched bytes what a consumer does with them, without a broker, a claim or an application: so that it can be measured what that costs.
type Walker struct{ reader reader }

// Walk checks the bytes as when they come, for the position from and below an offset, then moves over every record as when they are handed over, and says how many there were.
func (w *Walker) Walk(from, below int64, p []byte) (records int, err error) {
	ch, err := newChunk(nil, from, below, p)
	if ch == nil || err != nil {
		return 0, err
	}
	w.reader.chunk, w.reader.batch = ch, false
	for {
		ok, err := w.reader.next()
		if !ok {
			return records, err
		}
		records++
	}
}
