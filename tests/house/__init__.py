"""The project itself: layers, names, pages made from the code, types, the build."""
