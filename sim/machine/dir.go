package machine

import "path"

// MakeDir makes a directory and its missing parents, and makes all names on the way to it durable, also those that are there already: a process that crashed may have made them, and no more.
func MakeDir(d Disk, dir string) error {
	if err := d.Mkdir(dir); err != nil {
		return err
	}
	for dir != "" {
		if dir = path.Dir(dir); dir == "." || dir == "/" {
			dir = ""
		}
		if err := d.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
