package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// configEntry is one effective setting of a topic.
type configEntry struct {
	name, value, doc string
	source           kmsg.ConfigSource
	byDefault        string // what it would be without the topic's own setting
	number           bool
}

// describe lists the effective settings of a topic, sorted by name.
func (b *Broker) describe(own []setting) []configEntry {
	policy := b.cfg.policy()
	for _, s := range own {
		_ = s.apply(&policy) // as when its log was opened
	}
	var out []configEntry
	for i := range settingKinds {
		k := &settingKinds[i]
		e := configEntry{name: k.name, doc: k.doc, source: kmsg.ConfigSourceStaticBrokerConfig}
		if k.get == nil {
			e.value, e.byDefault = k.fixed, k.fixed
			e.source = kmsg.ConfigSourceDefaultConfig
		} else {
			e.number = !k.boolean && !k.ratio && k.words == nil
			e.value = k.show(k.get(policy))
			e.byDefault = k.show(k.get(b.cfg.policy()))
		}
		if slices.ContainsFunc(own, func(s setting) bool { return s.name == k.name }) {
			e.source = kmsg.ConfigSourceDynamicTopicConfig
		}
		out = append(out, e)
	}
	return out
}

// describeConfigs tells the settings of topics. Brokers have none that could be told apart from the topics' defaults, which they are asked for.
func (c *conn) describeConfigs(req *kmsg.DescribeConfigsRequest) (*kmsg.DescribeConfigsResponse, error) {
	b := c.b
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range req.Resources {
		rr := &req.Resources[i]
		pr := kmsg.NewDescribeConfigsResponseResource()
		pr.ResourceType, pr.ResourceName = rr.ResourceType, rr.ResourceName
		var entries []configEntry
		switch rr.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			b.mu.Lock()
			t := b.topics[rr.ResourceName]
			b.mu.Unlock()
			if t == nil {
				pr.ErrorCode = codeUnknownTopicOrPartition
				pr.ErrorMessage = kmsg.StringPtr("there is no topic " + rr.ResourceName)
			} else {
				entries = b.describe(t.settings)
			}
		case kmsg.ConfigResourceTypeBroker:
			if rr.ResourceName != "" && rr.ResourceName != strconv.Itoa(int(b.cfg.ID)) {
				pr.ErrorCode = codeInvalidRequest
				pr.ErrorMessage = kmsg.StringPtr("this is broker " + strconv.Itoa(int(b.cfg.ID)))
			} else {
				entries = b.describe(nil)
			}
		default:
			pr.ErrorCode = codeInvalidRequest
			pr.ErrorMessage = kmsg.StringPtr("only topics and brokers have settings")
		}
		for _, e := range entries {
			if rr.ConfigNames == nil || slices.Contains(rr.ConfigNames, e.name) {
				pr.Configs = append(pr.Configs, e.encode(req))
			}
		}
		resp.Resources = append(resp.Resources, pr)
	}
	return resp, nil
}

func (e configEntry) encode(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	pc := kmsg.NewDescribeConfigsResponseResourceConfig()
	pc.Name, pc.Value, pc.Source = e.name, kmsg.StringPtr(e.value), e.source
	pc.IsDefault = e.source != kmsg.ConfigSourceDynamicTopicConfig
	pc.ConfigType = kmsg.ConfigTypeString
	if e.number {
		pc.ConfigType = kmsg.ConfigTypeLong
	}
	if req.IncludeDocumentation {
		pc.Documentation = kmsg.StringPtr(e.doc)
	}
	if req.IncludeSynonyms {
		if !pc.IsDefault {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = e.name, pc.Value, e.source
			pc.ConfigSynonyms = append(pc.ConfigSynonyms, s)
		}
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = e.name, kmsg.StringPtr(e.byDefault), kmsg.ConfigSourceStaticBrokerConfig
		pc.ConfigSynonyms = append(pc.ConfigSynonyms, s)
	}
	return pc
}
