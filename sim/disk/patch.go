package disk

import "slices"

// pages is the length in pages.
func (n *node) pages() int64 { return (n.size + PageBytes - 1) / PageBytes }

// patch is a sector that reads differently from the true bytes because of a fault.
type patch struct {
	id    string
	bytes [SectorBytes]byte
}

func (m *Model) patch(n *node, sector int64, p *patch) {
	if n.patches == nil {
		n.patches = map[int64]*patch{}
		m.patched = append(m.patched, n)
	}
	n.patches[sector] = p
}

// unpatch forgets the patches of a range that is written or cut.
func (n *node) unpatch(from, to int64) {
	for s := from / SectorBytes; s*SectorBytes < to; s++ {
		delete(n.patches, s)
	}
}

// patchOver lays the patches over bytes that were read at an offset.
func (n *node) patchOver(p []byte, offset int64) {
	end := offset + int64(len(p))
	for s := offset / SectorBytes; s*SectorBytes < end; s++ {
		if q := n.patches[s]; q != nil {
			at := max(s*SectorBytes, offset)
			copy(p[at-offset:], q.bytes[at-s*SectorBytes:])
		}
	}
}

// heal forgets the patches of a fault.
func (m *Model) heal(id string) {
	m.patched = slices.DeleteFunc(m.patched, func(n *node) bool {
		for s, q := range n.patches {
			if q.id == id {
				delete(n.patches, s)
			}
		}
		if len(n.patches) == 0 {
			n.patches = nil
			return true
		}
		return false
	})
}

// sector is what a sector reads as now.
func (n *node) sector(s int64) *patch {
	p := new(patch)
	n.read(p.bytes[:], s*SectorBytes, false)
	if n.patches != nil {
		n.patchOver(p.bytes[:], s*SectorBytes)
	}
	return p
}

// rot lets durable sectors of matching files rot.
func (m *Model) rot(a *active) {
	for _, f := range m.Files() {
		if a.Path != "" && !match(a.Path, f.Path) {
			continue
		}
		draw := a.draw(f.Path)
		for s := int64(0); s*SectorBytes < min(f.Synced, f.Size); s++ {
			hit := a.Probability == 0 || draw.Float64() < a.Probability
			inside := min(SectorBytes, f.Synced-s*SectorBytes, f.Size-s*SectorBytes)
			bit := draw.Int64N(inside * 8)
			slot := f.n.peekSlot(s * SectorBytes / PageBytes)
			if !hit || a.spent() || slot != nil && slot.flags&unsynced != 0 {
				continue
			}
			p := f.n.sector(s)
			p.id = a.ID
			p.bytes[bit/8] ^= 1 << (bit % 8)
			m.patch(f.n, s, p)
			a.hit(Hit{Path: f.Path, From: s, To: bit})
		}
	}
}

// misdirect writes p, and lets its first page seem to have gone to the wrong page of the file.
func (m *Model) misdirect(n *node, p []byte, offset, wrong int64, a *active) {
	right := offset / PageBytes
	const sectors = PageBytes / SectorBytes
	var before [sectors]*patch
	for i := range before {
		before[i] = n.sector(right*sectors + int64(i))
	}
	m.write(n, p, offset)
	end := min(offset+int64(len(p)), (right+1)*PageBytes)
	for i := range int64(sectors) {
		if from := (right*sectors + i) * SectorBytes; from+SectorBytes <= offset || from >= end {
			continue
		}
		meant := n.sector(right*sectors + i)
		meant.id, before[i].id = a.ID, a.ID
		m.patch(n, right*sectors+i, before[i])
		m.patch(n, wrong*sectors+i, meant)
	}
}
