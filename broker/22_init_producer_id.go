package broker

import (
	"errors"
	"strconv"
	"time"

	coord "faultline/coord/client"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	producerIDsPath = "/producer_ids" // persistent; its data is the first id that no broker has reserved
	producerIDBlock = 1000            // ids that a broker reserves at a time
)

// initProducerID gives an idempotent producer an id that no other has ever got (KIP-98). Transactional ids are refused: there is no transaction coordinator.
func (c *conn) initProducerID(req *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	id, err := c.b.newProducerID()
	if err != nil {
		resp.ErrorCode = coordCode(err)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}

// newProducerID takes an id from the broker's block, and reserves another block when it is used up. A block whose reservation got no answer is left alone.
func (b *Broker) newProducerID() (int64, error) {
	for end := b.m.Uptime() + 5*time.Second; ; {
		b.mu.Lock()
		if b.nextProducerID < b.lastProducerID {
			id := b.nextProducerID
			b.nextProducerID++
			b.mu.Unlock()
			return id, nil
		}
		cl := b.session.client
		b.mu.Unlock()
		first, err := reserveProducerIDs(cl)
		if err == nil {
			b.mu.Lock()
			b.nextProducerID, b.lastProducerID = first, first+producerIDBlock
			b.mu.Unlock()
			continue
		}
		if !errors.Is(err, coord.ErrBadVersion) || b.m.Uptime() >= end || b.isStopping() {
			return -1, err
		}
	}
}

// reserveProducerIDs takes the next block off the registry. ErrBadVersion: another broker was faster.
func reserveProducerIDs(cl *coord.Client) (first int64, err error) {
	if err := cl.EnsurePath(producerIDsPath); err != nil {
		return 0, err
	}
	data, stat, err := cl.Get(producerIDsPath, false)
	if err != nil {
		return 0, err
	}
	if len(data) > 0 {
		if first, err = strconv.ParseInt(string(data), 10, 64); err != nil {
			return 0, err
		}
	}
	_, err = cl.Set(producerIDsPath, strconv.AppendInt(nil, first+producerIDBlock, 10), stat.Version)
	return first, err
}
