package disk

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// plainDisk is the fault model of disk.go written down once more, as plainly as it can be: values are copied, nothing is shared, recycled or cached. It
// knows no time. Directories are the root and "d", both durable from the start.
type plainDisk struct {
	open    []*plainFile          // by operations under way
	names   map[string]*plainFile // as processes see them
	durable map[string]*plainFile
	pending []plainChange // oldest first
	changes int           // ever
	budget  int           // pages that may have bytes; < 0: any number
}

// plainChange: from vanishes and to holds the file; either may be "".
type plainChange struct {
	file     *plainFile
	from, to string
	at       int // number of the change
}

type plainFile struct {
	pages        map[int]*plainPage
	size, synced int
	cut          int // smallest size since the durable state
	syncs        []*plainSync
}

type plainPage struct {
	newest, durable []byte // nil: zeros that take no space
	dirty           bool   // the next Sync takes it
}

type plainSync struct {
	size, cut, reach int // length and smallest length before; smallest length since
	pages            map[int][]byte
	failed           bool
}

func newPlainDisk() *plainDisk {
	return &plainDisk{names: map[string]*plainFile{}, durable: map[string]*plainFile{}, budget: -1}
}

func dirOf(name string) string {
	dir, _, deep := strings.Cut(name, "/")
	if !deep {
		return ""
	}
	return dir
}

// Entries.

func (d *plainDisk) change(f *plainFile, from, to string) {
	d.changes++
	d.pending = append(d.pending, plainChange{f, from, to, d.changes})
}

func (d *plainDisk) create(name string) *plainFile {
	f := &plainFile{pages: map[int]*plainPage{}}
	d.names[name] = f
	d.change(f, "", name)
	return f
}

func (d *plainDisk) remove(name string) {
	d.change(d.names[name], name, "")
	delete(d.names, name)
}

func (d *plainDisk) rename(from, to string) {
	if from == to {
		return
	}
	d.change(d.names[from], from, to)
	d.names[to] = d.names[from]
	delete(d.names, from)
}

// syncDir makes durable the pending changes up to number n as far as they touch the directory, and those before them that share a name with one that is taken.
func (d *plainDisk) syncDir(dir string, n int) {
	taken := map[int]bool{}
	names := map[string]bool{}
	for i := len(d.pending) - 1; i >= 0; i-- {
		c := d.pending[i]
		touches := c.from != "" && dirOf(c.from) == dir || c.to != "" && dirOf(c.to) == dir
		if c.at <= n && touches || names[c.from] || names[c.to] {
			taken[i] = true
			names[c.from], names[c.to] = true, true
			delete(names, "")
		}
	}
	var rest []plainChange
	for i, c := range d.pending {
		if taken[i] {
			c.apply(d.durable)
		} else {
			rest = append(rest, c)
		}
	}
	d.pending = rest
}

func (c plainChange) apply(names map[string]*plainFile) {
	delete(names, c.from)
	if c.to != "" {
		maps.DeleteFunc(names, func(_ string, f *plainFile) bool { return f == c.file }) // a file has one name
		names[c.to] = c.file
	}
}

// Bytes.

func (f *plainFile) page(i int) *plainPage {
	if f.pages[i] == nil {
		f.pages[i] = &plainPage{}
	}
	return f.pages[i]
}

// change gives a page new bytes.
func (p *plainPage) change(edit func(bytes []byte)) {
	fresh := make([]byte, PageBytes)
	copy(fresh, p.newest)
	edit(fresh)
	p.newest, p.dirty = fresh, true
}

// room is how much of a write fits.
func (d *plainDisk) room(f *plainFile, n, offset int) int {
	if d.budget < 0 {
		return n
	}
	used := d.used()
	for i := 0; i < n; {
		at := (offset + i) / PageBytes
		if f.pages[at] == nil || f.pages[at].newest == nil {
			if used >= d.budget {
				return i
			}
			used++
		}
		i = (at+1)*PageBytes - offset
	}
	return n
}

// used is how many pages are taken: by files that have a name, and by those that are open.
func (d *plainDisk) used() (n int) {
	taken := map[*plainFile]bool{}
	for _, f := range slices.AppendSeq(slices.Clone(d.open), maps.Values(d.names)) {
		taken[f] = true
	}
	for f := range taken {
		for _, p := range f.pages {
			if p.newest != nil {
				n++
			}
		}
	}
	return n
}

func (f *plainFile) write(b []byte, offset int) {
	for i := 0; i < len(b); {
		at := offset + i
		k := min(PageBytes-at%PageBytes, len(b)-i)
		f.page(at / PageBytes).change(func(p []byte) { copy(p[at%PageBytes:], b[i:i+k]) })
		i += k
	}
	if len(b) > 0 {
		f.size = max(f.size, offset+len(b))
	}
}

func (f *plainFile) truncate(size int) {
	for i, p := range f.pages {
		switch keep := size - i*PageBytes; {
		case p.newest == nil || keep >= PageBytes || size >= f.size:
		case keep > 0:
			p.change(func(b []byte) { clear(b[keep:]) })
		default:
			p.newest, p.dirty = nil, true
		}
	}
	f.size, f.cut = size, min(f.cut, size)
	for _, s := range f.syncs {
		s.cut = min(s.cut, size)
	}
}

// begin captures.
func (f *plainFile) begin() *plainSync {
	s := &plainSync{size: f.size, cut: f.size, reach: f.cut, pages: map[int][]byte{}}
	for i, p := range f.pages {
		if p.dirty {
			s.pages[i], p.dirty = slices.Clone(p.newest), false
		}
	}
	f.syncs = append(f.syncs, s)
	return s
}

// end makes what was captured durable, the truncation first.
func (f *plainFile) end(s *plainSync) {
	f.syncs = f.syncs[1:]
	if s.failed {
		for _, later := range f.syncs {
			later.failed = true
		}
		return
	}
	for i, p := range f.pages {
		p.durable = cutPage(p.durable, i, s.reach)
	}
	for i, b := range s.pages {
		f.pages[i].durable = b
	}
	f.synced, f.cut = s.size, s.cut
}

// cutPage is page i of a file that was cut to size.
func cutPage(p []byte, i, size int) []byte {
	if keep := size - i*PageBytes; keep < PageBytes {
		out := make([]byte, PageBytes)
		copy(out, p[:min(len(p), max(keep, 0))])
		return out
	}
	return p
}

// crash: Syncs under way promise nothing, what they captured must be synced again.
func (d *plainDisk) crash() {
	d.open = nil
	for _, f := range d.files() {
		for _, s := range f.syncs {
			for i := range s.pages {
				f.pages[i].dirty = true
			}
		}
		f.syncs = nil
	}
}

func (d *plainDisk) files() (list []*plainFile) {
	for _, f := range d.names {
		list = append(list, f)
	}
	for _, f := range d.durable {
		list = append(list, f)
	}
	for _, c := range d.pending {
		list = append(list, c.file)
	}
	return list
}

// Power loss.

const plainLimit = 500

// outcomes is the set of images that may be left, or nil when there are too many to bother.
func (d *plainDisk) outcomes() map[Image]bool {
	if len(d.pending) > 8 {
		return nil
	}
	contents := map[*plainFile]map[string]bool{}
	all := map[Image]bool{}
	for mask := range 1 << len(d.pending) {
		names := maps.Clone(d.durable)
		for i, c := range d.pending {
			if mask>>i&1 != 0 {
				c.apply(names)
			}
		}
		paths := append(slices.Collect(maps.Keys(names)), "d")
		slices.Sort(paths)
		forms := []imageBuilder{{}}
		for _, path := range paths {
			if path == "d" {
				for i := range forms {
					forms[i].dir(path)
				}
				continue
			}
			f := names[path]
			if contents[f] == nil {
				contents[f] = f.outcomes()
			}
			var longer []imageBuilder
			for _, form := range forms {
				for content := range contents[f] {
					next := imageBuilder{slices.Clone(form.form)}
					next.file(path, content)
					longer = append(longer, next)
				}
			}
			if forms = longer; len(forms) > plainLimit || contents[f] == nil {
				return nil
			}
		}
		for _, form := range forms {
			all[form.image()] = true
		}
	}
	if len(all) > plainLimit {
		return nil
	}
	return all
}

// outcomes is what may be left of a file.
func (f *plainFile) outcomes() map[string]bool {
	set := map[string]bool{}
	cut := min(f.cut, f.synced)
	if cut < f.synced && !f.compose(set, f.synced, false, cut) { // the truncation did not happen
		return nil
	}
	sizes := []int{f.size}
	if f.size > cut {
		sizes = append(sizes, cut)
		for s := cut/SectorBytes*SectorBytes + SectorBytes; s < f.size; s += SectorBytes {
			sizes = append(sizes, s)
		}
	}
	for _, size := range sizes {
		if !f.compose(set, size, true, cut) {
			return nil
		}
	}
	return set
}

// compose adds every combination of pages at a length; false: too many.
func (f *plainFile) compose(set map[string]bool, size int, truncated bool, cut int) bool {
	parts := []string{""}
	for i := 0; i*PageBytes < size; i++ {
		p := f.pages[i]
		if p == nil {
			p = &plainPage{}
		}
		old := p.durable
		newer := [][]byte{p.newest}
		for _, s := range f.syncs {
			if b, ok := s.pages[i]; ok {
				if truncated {
					b = cutPage(b, i, s.cut)
				}
				newer = append(newer, b)
			}
		}
		switch {
		case truncated:
			old = cutPage(old, i, cut)
		case (i+1)*PageBytes > cut:
			newer = nil
		}
		pages := map[string]bool{}
		for _, b := range append(newer, old) {
			tear(pages, pad(old), pad(b), size-i*PageBytes)
		}
		var longer []string
		for _, part := range parts {
			for page := range pages {
				longer = append(longer, part+page)
			}
		}
		if parts = longer; len(parts) > plainLimit {
			return false
		}
	}
	for _, s := range parts {
		set[s] = true
	}
	return len(set) <= plainLimit
}

func pad(p []byte) []byte { return append(slices.Clone(p), make([]byte, PageBytes-len(p))...) }

// tear adds every mixture of the sectors of two versions, cut to a length.
func tear(set map[string]bool, a, b []byte, length int) {
	parts := []string{""}
	for at := 0; at < min(length, PageBytes); at += SectorBytes {
		end := min(at+SectorBytes, length)
		var longer []string
		for _, part := range parts {
			longer = append(longer, part+string(a[at:end]))
			if !bytes.Equal(a[at:end], b[at:end]) {
				longer = append(longer, part+string(b[at:end]))
			}
		}
		parts = longer
	}
	for _, p := range parts {
		set[p] = true
	}
}

func (f *plainFile) content() string {
	var b strings.Builder
	for i := 0; i*PageBytes < f.size; i++ {
		var p []byte
		if f.pages[i] != nil {
			p = f.pages[i].newest
		}
		b.Write(pad(p)[:min(PageBytes, f.size-i*PageBytes)])
	}
	return b.String()
}
