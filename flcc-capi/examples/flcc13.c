/* The interface of FLCC 1.3: a stream of frames, each convolved and correlated with one template.
 *
 * cc -std=c99 flcc13.c $(pkg-config --cflags --libs flcc) -lm -o flcc13 && ./flcc13
 */
#include <flcc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 4, H = 60, W = 80, TH = 9, TW = 7, OH = H + TH - 1, OW = W + TW - 1 };

static const char *const RESULTS[] = {
    "FLCC_SUCCESS",       "FLCC_INVALID_PLAN",     "FLCC_INVALID_DIMENSION", "FLCC_INVALID_SIZE", "FLCC_INVALID_TYPE",
    "FLCC_INVALID_PLATFORM", "FLCC_INVALID_VALUE", "FLCC_ALLOC_FAILED",      "FLCC_EXEC_FAILED",
};

static void done(flccResult result) {
    if (result != FLCC_SUCCESS) {
        fprintf(stderr, "%s: %s\n", RESULTS[result], flcc_last_error());
        exit(EXIT_FAILURE);
    }
}

/* A sum of the definition, for one place of one frame: the template flipped, zeros outside. */
static double convolved(const float *frame, const float *templat, int y, int x) {
    double sum = 0;
    for (int v = 0; v < TH; v++) {
        for (int u = 0; u < TW; u++) {
            const int row = y - v, column = x - u;
            if (row >= 0 && row < H && column >= 0 && column < W) {
                sum += (double)frame[row * W + column] * templat[v * TW + u];
            }
        }
    }
    return sum;
}

int main(void) {
    float *frames = flcc_malloc(FRAMES * H * W * sizeof(float));
    float *templat = flcc_malloc(TH * TW * sizeof(float));
    float *results = flcc_malloc((size_t)FRAMES * OH * OW * sizeof(float));
    if (frames == NULL || templat == NULL || results == NULL) {
        return EXIT_FAILURE;
    }
    for (int i = 0; i < FRAMES * H * W; i++) {
        frames[i] = (float)((i * 7919L) % 251) + (float)(i % W);
    }
    /* In frame k the template stands at row 10 + k, column 5 k. */
    for (int i = 0; i < TH * TW; i++) {
        templat[i] = (float)((i * i) % 37);
        for (int k = 0; k < FRAMES; k++) {
            frames[(k * H + 10 + k + i / TW) * W + 5 * k + i % TW] = 3 * templat[i] + 100;
        }
    }

    const flccSize image_size = {H, W, 0}, template_size = {TH, TW, 0};
    flccPlan conv, lcorr;
    done(conv_plan(&conv, 2, image_size, template_size, FLCC_STREAM, FLCC_ANY));
    done(lcorr_plan(&lcorr, 2, image_size, template_size, FLCC_STREAM, FLCC_HOST));

    done(conv_exec(&conv, frames, templat, results, FRAMES));
    double worst = 0, largest = 0;
    for (int k = 0; k < FRAMES; k++) {
        for (int i = 0; i < OH * OW; i++) {
            const double exact = convolved(frames + k * H * W, templat, i / OW, i % OW);
            worst = fmax(worst, fabs(results[k * OH * OW + i] - exact));
            largest = fmax(largest, fabs(exact));
        }
    }
    /* Transforms round in proportion to the norms of frame and template, and not to each sum. */
    printf("convolutions of %d frames: largest error %.1e of the largest sum\n", FRAMES, worst / largest);

    done(lcorr_exec(&lcorr, frames, templat, results, FRAMES));
    int right = worst < 1e-5 * largest;
    for (int k = 0; k < FRAMES; k++) {
        const float *of_frame = results + k * OH * OW;
        int best = 0;
        for (int i = 1; i < OH * OW; i++) {
            best = of_frame[i] > of_frame[best] ? i : best;
        }
        /* Mode full: output 0 has the template's last sample on the image's first. */
        const int row = best / OW - (TH - 1), column = best % OW - (TW - 1);
        printf("frame %d: the template at %d,%d with %.6f\n", k, row, column, of_frame[best]);
        right = right && row == 10 + k && column == 5 * k && of_frame[best] > 0.99999f;
    }

    /* Each mistake has its code. */
    flccPlan none;
    right = right && conv_plan(NULL, 2, image_size, template_size, FLCC_SINGLE, FLCC_ANY) == FLCC_INVALID_PLAN;
    right = right && conv_plan(&none, 1, image_size, template_size, FLCC_SINGLE, FLCC_ANY) == FLCC_INVALID_DIMENSION;
    right = right && lcorr_exec(&conv, frames, templat, results, FRAMES) == FLCC_INVALID_PLAN;
    right = right && conv_exec(&conv, NULL, templat, results, FRAMES) == FLCC_INVALID_VALUE;
    done(conv_destroy(&conv));
    done(lcorr_destroy(&lcorr));
    right = right && conv_exec(&conv, frames, templat, results, FRAMES) == FLCC_INVALID_PLAN;
    right = right && conv_destroy(&conv) == FLCC_INVALID_PLAN;
    flcc_free(frames);
    flcc_free(templat);
    flcc_free(results);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
