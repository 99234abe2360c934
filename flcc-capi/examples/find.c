/* Finds a template in an image, and leaves the score of every place: plans by the text of a spec.
 *
 * cc -std=c99 find.c $(pkg-config --cflags --libs flcc) -o find && ./find
 */
#include <flcc.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 240, WIDTH = 320, SIDE = 24, BEST = 3 };

/* Says what was wrong and ends, where a call failed. */
static void done(flcc_status status) {
    if (status != FLCC_OK) {
        fprintf(stderr, "%s: %s\n", flcc_status_text(status), flcc_last_error());
        exit(EXIT_FAILURE);
    }
}

/* A picture that looks nowhere twice the same: rings around two centres, and noise. */
static void paint(uint8_t *image) {
    uint32_t noise = 1;
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            int far = (y - 60) * (y - 60) + (x - 70) * (x - 70), near = (y - 150) * (y - 150) + (x - 200) * (x - 200);
            noise = noise * 1664525u + 1013904223u;
            image[y * WIDTH + x] = (uint8_t)((far / 97 + near / 53 + (int)(noise >> 27)) & 255);
        }
    }
}

int main(void) {
    static uint8_t image[HEIGHT * WIDTH], part[SIDE * SIDE];
    paint(image);
    const int row = 131, column = 207;
    for (int y = 0; y < SIDE; y++) {
        memcpy(part + y * SIDE, image + (row + y) * WIDTH + column, SIDE);
    }

    /* What is computed, and on which types and sizes; how, the library decides. */
    flcc_plan *plan;
    done(flcc_plan_create("zncc:u8:0@240x320*24x24:valid", NULL, &plan));
    char text[2048];
    done(flcc_plan_explain(plan, text, sizeof text, NULL));
    printf("%.*s\n", (int)strcspn(text, "\n"), text);

    /* The template is bound once, for any number of images. The template of a spec without a mask needs no mask. */
    flcc_matcher *matcher;
    done(flcc_matcher_create(plan, part, NULL, NULL, FLCC_U8, &matcher));

    /* The best places, without a map. */
    flcc_peak peaks[BEST];
    size_t found;
    done(flcc_peaks(matcher, image, NULL, 1, "threshold=0.5,subpixel=septic", peaks, BEST, &found));
    for (size_t i = 0; i < found; i++) {
        printf("%zu,%zu %.6f\n", peaks[i].position[0], peaks[i].position[1], peaks[i].score);
    }

    /* The same part turned by a quarter, counterclockwise: in the image it stands turned back, by 270 degrees. */
    static uint8_t turned[SIDE * SIDE];
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            turned[y * SIDE + x] = part[x * SIDE + SIDE - 1 - y];
        }
    }
    const double angles[] = {0, 90, 180, 270};
    flcc_posed_peak stands;
    size_t places;
    done(flcc_find_posed("zncc:u8:240x320*24x24:valid", NULL, image, NULL, turned, NULL, NULL, FLCC_U8, angles, 4, NULL,
                         0, NULL, &stands, 1, &places));
    printf("turned by %g degrees: its middle lies at %g,%g\n", stands.angle, stands.middle[0], stands.middle[1]);

    /* The score of every place. */
    flcc_info info = {.size = sizeof info};
    done(flcc_plan_info(plan, &info));
    const size_t rows = info.result.lengths[0], columns = info.result.lengths[1];
    float *scores = malloc(rows * columns * sizeof *scores);
    if (scores == NULL) {
        return EXIT_FAILURE;
    }
    done(flcc_execute(matcher, image, NULL, 1, scores, NULL));
    const float there = scores[(size_t)row * columns + (size_t)column];

    /* The right half of the image alone, where it lies: a stride of a whole row. Its plan is one of its own. */
    flcc_plan *half_plan;
    flcc_matcher *half;
    done(flcc_plan_create("zncc:u8:240x160*24x24:valid", "threads=1", &half_plan));
    done(flcc_matcher_create(half_plan, part, NULL, NULL, FLCC_U8, &half));
    const flcc_layout every_row = {.strides = {WIDTH, 1}, .channel = 1, .next = HEIGHT * WIDTH};
    flcc_peak best;
    done(flcc_peaks(half, image + WIDTH / 2, &every_row, 1, NULL, &best, 1, &found));
    printf("in the right half: %zu,%zu\n", best.position[0], best.position[1]);

    /* A wrong call is told. */
    flcc_plan *none;
    if (flcc_plan_create("zncc:u8:240x320*24x24:vald", NULL, &none) == FLCC_OK || none != NULL) {
        return EXIT_FAILURE;
    }
    printf("%s\n", flcc_last_error());

    done(flcc_matcher_destroy(matcher));
    done(flcc_matcher_destroy(half));
    done(flcc_plan_destroy(plan));
    done(flcc_plan_destroy(half_plan));
    free(scores);
    const int right = found == 1 && there > 0.99999f && peaks[0].position[0] == 131 && peaks[0].position[1] == 207 &&
                      best.position[0] == 131 && best.position[1] == 207 - WIDTH / 2 && places == 1 &&
                      stands.angle == 270 && stands.position[0] == 131 && stands.position[1] == 207;
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
