package oracle

import "testing"

func TestTermsHaveOneLeader(t *testing.T) {
	silent(t, NewTerms(calmly()), "start coord-1; start coord-2; coord-1 coord.leads - - 2; coord-2 coord.leads - - 3; coord-1 coord.leads - - 4")
	fires(t, NewTerms(calmly()), Gen, "coord-2 leads the coordination service in term 2 from 1s on, which coord-1 led already", "start coord-1; start coord-2; coord-1 coord.leads - - 2; +1s; coord-2 coord.leads - - 2")
	fires(t, NewTerms(calmly()), Gen, "in term 2", "start coord-1; coord-1 coord.leads - - 2; crash coord-1; start coord-1; coord-1 coord.leads - - 2")
}
