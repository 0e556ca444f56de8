package client

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// versions is a range of versions of one request; max < min: none.
type versions struct{ min, max int16 }

// spoken narrows what kmsg can encode to what the callers of this package mean, for a broker that knows versions up to most. Keys that are missing: everything. Topics go by their ids where the caller and the broker know them
// (KIP-516): what is asked of one topic is then never answered for the next of its name.
func spoken(req kmsg.Request, most int16) versions {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		if most >= 13 && len(r.Topics) > 0 && r.Topics[0].TopicID != noID {
			return versions{13, 13}
		}
		return versions{3, 12} // record batches v2
	case *kmsg.FetchRequest:
		if len(r.Topics) > 0 && r.Topics[0].TopicID != noID && (most >= 15 || r.Topics[0].Topic == "") {
			return versions{15, 17} // a replica tells its incarnation
		}
		return versions{4, 12}
	case *kmsg.OffsetCommitRequest:
		for i := range r.Topics {
			if r.Topics[i].TopicID == noID {
				return versions{0, 9}
			}
		}
	case *kmsg.OffsetFetchRequest:
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				if r.Groups[i].Topics[j].TopicID == noID {
					return versions{0, 9}
				}
			}
		}
	case *kmsg.ListOffsetsRequest:
		return versions{1, req.MaxVersion()} // one offset and its timestamp
	}
	return versions{0, req.MaxVersion()}
}

var noID [16]byte

// named gives the topics of an answer that goes by ids the names that its request has for them.
func named(req kmsg.Request, resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.ProduceResponse:
		if resp.Version >= 13 {
			copyNames(resp.Topics, req.(*kmsg.ProduceRequest).Topics,
				func(t *kmsg.ProduceResponseTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID },
				func(t *kmsg.ProduceRequestTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID })
		}
	case *kmsg.FetchResponse:
		if resp.Version >= 13 {
			copyNames(resp.Topics, req.(*kmsg.FetchRequest).Topics,
				func(t *kmsg.FetchResponseTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID },
				func(t *kmsg.FetchRequestTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID })
		}
	case *kmsg.OffsetCommitResponse:
		if resp.Version >= 10 {
			copyNames(resp.Topics, req.(*kmsg.OffsetCommitRequest).Topics,
				func(t *kmsg.OffsetCommitResponseTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID },
				func(t *kmsg.OffsetCommitRequestTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID })
		}
	case *kmsg.OffsetFetchResponse:
		if resp.Version >= 10 {
			asked := req.(*kmsg.OffsetFetchRequest).Groups
			for i := range resp.Groups {
				for k := range asked {
					copyNames(resp.Groups[i].Topics, asked[k].Topics,
						func(t *kmsg.OffsetFetchResponseGroupTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID },
						func(t *kmsg.OffsetFetchRequestGroupTopic) (*string, *[16]byte) { return &t.Topic, &t.TopicID })
				}
			}
		}
	}
}

// copyNames gives topics that were answered the names of those that were asked for, by their ids.
func copyNames[A, Q any](answered []A, asked []Q, answer func(*A) (name *string, id *[16]byte), ask func(*Q) (name *string, id *[16]byte)) {
	for i := range answered {
		name, id := answer(&answered[i])
		for j := range asked {
			if n, asked := ask(&asked[j]); *asked == *id {
				*name = *n
			}
		}
	}
}

// version picks the newest version of req that both sides know.
func (c *Conn) version(req kmsg.Request) (int16, error) {
	theirs := versions{0, -1}
	if k := int(req.Key()); k < len(c.versions) {
		theirs = c.versions[k]
	}
	ours := spoken(req, theirs.max)
	if most, limited := c.cfg.AtMost[req.Key()]; limited {
		ours.max = min(ours.max, most)
	}
	v := min(ours.max, theirs.max)
	if v < ours.min || v < theirs.min {
		return 0, fmt.Errorf("%w: %s %d to %d, %s speaks %d to %d", ErrUnsupported,
			kmsg.NameForKey(req.Key()), ours.min, ours.max, c.addr, theirs.min, theirs.max)
	}
	return v, nil
}

// negotiate asks for the broker's versions, once, or twice when the broker is too old for the first form (KIP-511).
func (c *Conn) negotiate(timeout time.Duration) error {
	for _, v := range []int16{3, 0} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = v
		req.ClientSoftwareName, req.ClientSoftwareVersion = "faultline", "1"
		resp, err := c.start(req, timeout, false).Wait()
		if err != nil {
			return err
		}
		r := resp.(*kmsg.ApiVersionsResponse)
		if len(r.ApiKeys) == 0 && r.ErrorCode == kerr.UnsupportedVersion.Code {
			continue
		}
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil && err != kerr.UnsupportedVersion {
			return err
		}
		// Written before anybody else has the connection.
		for _, k := range r.ApiKeys {
			if k.ApiKey < 0 || k.ApiKey > 1000 {
				continue
			}
			for int(k.ApiKey) >= len(c.versions) {
				c.versions = append(c.versions, versions{0, -1})
			}
			c.versions[k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
		}
		return nil
	}
	return fmt.Errorf("%w: the broker tells no versions", ErrUnsupported)
}

// isUnsupportedApiVersions recognises the answer of a broker that does not know our version of ApiVersions: it is in
// version 0 whatever was asked.
func isUnsupportedApiVersions(resp kmsg.Response, body []byte) bool {
	_, ok := resp.(*kmsg.ApiVersionsResponse)
	return ok && len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == kerr.UnsupportedVersion.Code
}
