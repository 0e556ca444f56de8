package quantity

import "fmt"

// DidYouMean returns `; did you mean "x"?` for the allowed word that a typing error probably meant, "" when none is near.
func DidYouMean(found string, allowed []string) string {
	best, least := "", len(found)/3+1
	for _, word := range allowed {
		if d := distance(found, word); d < least {
			best, least = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
