package reports

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	require.NoError(t, SaveFile(path, []byte("one")))
	require.NoError(t, SaveFile(path, []byte("two")))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b.json"), 0o755))
	require.ErrorContains(t, SaveFile(filepath.Join(dir, "b.json"), []byte("x")), "b.json")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing half-written stays")
}

func TestFolderThatTakesNoFileIsToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Folder(filepath.Join(dir, "new", "deep")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	require.Error(t, Folder(filepath.Join(dir, "file")))
	left, err := os.ReadDir(filepath.Join(dir, "new", "deep"))
	require.NoError(t, err)
	require.Empty(t, left)
}
