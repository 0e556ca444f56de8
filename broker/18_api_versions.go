package broker

import (
	"faultline/broker/wire"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersions tells which requests are handled, and in which versions.
func (c *conn) apiVersions(req *kmsg.ApiVersionsRequest) (*kmsg.ApiVersionsResponse, error) {
	return versionsResponse(0), nil
}

// unsupportedApiVersions answers a version of ApiVersions that is not known, in version 0 and with the list, so that the client
// may ask again (KIP-511).
func (c *conn) unsupportedApiVersions(h wire.Header) error {
	return c.reply(h.Correlation, versionsResponse(codeUnsupportedVersion))
}

func versionsResponse(code int16) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = code
	for _, a := range apis {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.least, a.most
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}
